// SPDX-License-Identifier: Apache-2.0
// Marks what the shared library shows; everything else is hidden.
#pragma once

#define OSTRAKA_API __attribute__((visibility("default")))
