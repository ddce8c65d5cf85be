// SPDX-License-Identifier: Apache-2.0
// How the double carries NCCL's operations out: over MPI, between the processes, when both fake streams have come to
// them.
#pragma once

#include "engine.hpp"

#include <mpi.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ostraka::cuda_double {

enum class Kind : std::int32_t { allgather, reduce_scatter, allreduce, broadcast, reduce, send, recv };

/// As passed; `count` as NCCL counts it for this operation.
struct Request {
  Kind kind;
  const std::byte* in;
  std::byte* out;
  std::int64_t count;
  ncclDataType_t dtype;
  ncclRedOp_t op;
  int peer; ///< or root
};

std::int64_t width_of(ncclDataType_t dtype);

/// Memory that all ranks of a communicator have registered.
struct Window {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::int64_t number = 0; ///< of the window, equal on all ranks
};

/// Something that all ranks of a communicator do together, each with a few numbers.
struct Meeting {
  std::vector<std::int64_t> own;
  std::vector<std::int64_t> all; ///< rank after rank
  std::vector<MPI_Request> requests;
  std::function<void()> then;
};

/// A communicator.
struct Comm {
  std::int64_t id = 0;
  std::string name;
  int rank = 0;
  int size = 1;
  int root = 0;              ///< the world rank that made the id
  std::vector<int> world;    ///< world ranks, once known
  int tag = 0;               ///< this one and the next two are its own
  std::int64_t issued = 0;   ///< launches
  std::int64_t run = 0;      ///< of them, so many are over
  std::int64_t sequence = 0; ///< of collectives carried out
  bool shares = false;       ///< resources with what is split from it
  int polls_left = 0;        ///< until a call of NCCL is taken
  ncclResult_t error = ncclSuccess;
  std::vector<Window> windows;
  std::int64_t window_number = 0;
  std::shared_ptr<Meeting> meeting; ///< a split or a registration under way
  bool is_ended = false;            ///< aborted
  bool is_finalized = false;

  // While it starts:
  std::vector<int> pair; ///< own rank and world rank
  std::vector<int> pairs;
  std::vector<MPI_Request> requests;
  bool has_table = false;
};
using CommPtr = std::shared_ptr<Comm>;

/// Begins a meeting, in which all ranks pass as many numbers.
void meet(Comm& comm, std::vector<std::int64_t> own, std::function<void()> then);
/// Goes on with it; true once it is over.
bool advance_meeting(Comm& comm);

/// The number of the window in which memory lies and the place in it, both -1 in none.
std::pair<std::int64_t, std::int64_t> window_of(const Comm& comm, const std::byte* data, std::size_t bytes);

/// Goes on with the start of a communicator; true once all ranks know each other.
bool advance_start(Comm& comm);

/// Operations of one launch, the collective ones in order, messages all at once.
class Launch {
public:
  Launch(CommPtr comm, std::vector<Request> requests);
  /// True when everything is over.
  bool step();

private:
  class Part;
  class Collective;
  class Message;

  CommPtr comm_;
  std::int64_t number_;
  std::vector<std::shared_ptr<Part>> collectives_, messages_;
  std::size_t next_ = 0;
};

} // namespace ostraka::cuda_double
