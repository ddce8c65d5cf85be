// SPDX-License-Identifier: Apache-2.0
// Loops in the widest vectors of the machine that runs them, not of the one that built them. Elsewhere than on x86 with
// g++ they are plain C++.
#pragma once

// A function that exists once per set of instructions. (Sanitizers run before it can choose, nvcc does not know it.)
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__) && !defined(__CUDACC__)
#define OSTRAKA_WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define OSTRAKA_WIDEST
#endif

// The iterations of the next loop do not depend on each other. (Sanitizers break loops up, and g++ warns then.)
#if defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define OSTRAKA_INDEPENDENT _Pragma("GCC ivdep")
#else
#define OSTRAKA_INDEPENDENT
#endif
