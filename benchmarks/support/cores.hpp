// SPDX-License-Identifier: Apache-2.0
// How near two cores are to each other. Virtual machines move theirs: under one cache a line goes there and back in
// 0.1 to 0.2 us, and the cores share one way to memory; apart it takes 0.5 us or more, each core has memory of its own
// speed, and what ranks share is slow beside what they have for themselves. Ratios of the two are not comparable.
#pragma once

#include "sampling.hpp"

namespace ostraka::bench {

/// Of the machine, whatever this rank is bound to. Local.
int num_cores();

/// Nanoseconds of a cache line from the core of rank 0 to the next one and back, the least of some tries; 0 where that
/// cannot be known. Collective over MPI_COMM_WORLD.
double line_round_trip_ns();

/// Ranks of one node tell each other twice that they are there: what an operation needs beside its work, before it and
/// after. For no more ranks than cores. Collective.
Operation make_two_barriers();

} // namespace ostraka::bench
