// SPDX-License-Identifier: Apache-2.0
#pragma once

#define OSTRAKA_VERSION_MAJOR 0
#define OSTRAKA_VERSION_MINOR 1
#define OSTRAKA_VERSION_PATCH 0
#define OSTRAKA_VERSION_STRING "0.1.0"
