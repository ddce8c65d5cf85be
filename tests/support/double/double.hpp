// SPDX-License-Identifier: Apache-2.0
// What tests ask the double of CUDA and NCCL. It has the entry points that the library calls, host memory behind them,
// and streams that run when somebody asks for the state of an event, in an order drawn from a seed within what events
// allow, so that a missing wait shows as wrong data. It proves arguments and order, never speed.
//
// OSTRAKA_DOUBLE_SEED        the order in which streams run (default 1; each rank has its own sequence)
// OSTRAKA_DOUBLE_DEVICES     GPUs of the machine (default 16)
// OSTRAKA_DOUBLE_DROP_WAIT=n the n-th wait of a stream for an event is left out
// OSTRAKA_DOUBLE_DROP_POLL=n the n-th point at which the host finds work unfinished says that it is done
// OSTRAKA_DOUBLE_PROTECT=0   hosts may touch memory of the device, which else ends the program
// OSTRAKA_DOUBLE_NCCL=23007  the version that NCCL says it has (default: that of its header)
// OSTRAKA_DOUBLE_NO_WINDOW=1 NCCL registers memory without giving a window
// OSTRAKA_DOUBLE_REPORT=1    rank 0 says at the end how many waits there were; 2: and where each one comes from
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ostraka::cuda_double {

/// A call of NCCL that starts an operation.
struct Call {
  std::string name;
  std::string communicator;
  int stream;         ///< number
  std::int64_t count; ///< as passed
  int dtype;          ///< as passed
  int launch;         ///< number of its group
};

/// All so far, in order, and those since the last call of this function.
std::vector<Call> take_calls();

/// How a communicator came to be.
struct Start {
  std::string communicator;
  std::string parent; ///< from which it was split; empty: from none
  bool shares;        ///< resources with it
};

/// All so far, and those since the last call of this function.
std::vector<Start> take_starts();

/// Windows that are registered now, and operations whose memory lay in windows on all ranks.
std::int64_t windows();
std::int64_t symmetric_operations();

/// Calls of cudaStreamWaitEvent so far, and points that the host found unfinished.
std::int64_t waits();
std::int64_t polls();

/// From now on streams run in the order of another seed.
void set_seed(std::int64_t seed);

/// While `holds`, streams run nothing: whoever waits for the device waits for ever.
void hold_device(bool holds);

/// The next operation of NCCL on this rank fails while it runs, which its communicator says when it is asked.
void fail_next_operation();

/// Whether calls that record an event or fill memory fail from now on.
void fail_calls(bool fails);

/// What was done against the rules of CUDA or NCCL, one line each; empty: nothing. A program that has not taken it
/// fails when it ends.
std::string take_misuse();

} // namespace ostraka::cuda_double
