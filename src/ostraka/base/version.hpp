// SPDX-License-Identifier: Apache-2.0
// The version; CMake reads it from here.
#pragma once

#define OSTRAKA_VERSION_STRING "0.1.0"
