// SPDX-License-Identifier: Apache-2.0
// What the operations of the MPI back end share. They are tasks over nonblocking MPI calls whose counts and
// displacements stay within the count limit; larger operations take several calls.
#pragma once

#include <ostraka/comm/communicator.hpp>
#include <ostraka/comm/mpi/mpi_communicator.hpp>

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ostraka::comm::impl {

/// Scratch memory of one communicator, kept between operations so that a steady step allocates none. Every operation in
/// flight has a piece of its own.
class ScratchPool {
public:
  std::vector<std::byte> take(std::int64_t bytes);
  void give_back(std::vector<std::byte> piece) { free_.push_back(std::move(piece)); }

private:
  std::vector<std::vector<std::byte>> free_;
};

/// Shared by a communicator and its operations, which may outlive it.
struct Group {
  MPI_Comm comm;
  int rank;
  int size;
  std::string name;
  MpiSettings settings;
  ScratchPool scratch;
};
using GroupPtr = std::shared_ptr<Group>;

/// Takes over `comm`. Throws INVALID_ARGUMENT for a limit out of range.
GroupPtr make_group(MPI_Comm comm, const std::string& name, const MpiSettings& settings);
/// When the communicator ends: a group that failed may have requests in flight, which need it.
void release(Group& group, bool has_failed);

class MpiCollective : public Collective {
protected:
  explicit MpiCollective(GroupPtr group) : group_(std::move(group)) {}
  void check(int code) const {
    if (code != MPI_SUCCESS)
      check_mpi(code, description.text());
  }
  /// Whether a request is complete, which then is null. Throws COMMUNICATION when it failed.
  bool is_complete(MPI_Request& request) const;

  GroupPtr group_;
};

/// What messages are for: those of two ranks with one tag match in the order in which operations start.
enum class Tag : int { exchange = 1, reduction = 2, partial = 3, share = 4, broadcast = 5 };

/// Messages between pairs of ranks, for one operation. A message that is shorter than its receiver expects, which MPI
/// takes for complete, is an error.
class Messages {
public:
  /// `operation` is what they belong to and outlives them.
  Messages(GroupPtr group, const Description& operation, DType dtype, Tag tag)
      : group_(std::move(group)), operation_(operation), dtype_(dtype), tag_(tag) {}

  /// `count` of `type` are `elements` of the messages' type.
  void receive(int peer, std::int64_t elements, void* data, int count, MPI_Datatype type);
  void send(int peer, const void* data, int count, MPI_Datatype type);
  /// One range, in as many messages as the count limit asks for.
  void receive(int peer, std::byte* data, std::int64_t elements);
  void send(int peer, const std::byte* data, std::int64_t elements);
  /// Whether all messages so far are complete. Throws RANKS_DISAGREE for a short one.
  bool are_complete();

private:
  struct Message {
    int peer;
    std::int64_t expected; ///< elements; negative where this rank sends
  };
  void check(int code) const;
  bool test_all();
  void check_lengths() const;
  template <class Part>
  void for_parts(std::int64_t elements, Part&& part) const;

  GroupPtr group_;
  const Description& operation_;
  DType dtype_;
  Tag tag_;
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;
  std::vector<Message> messages_;
};

/// Of one round of a reduction; more rounds beyond that.
constexpr std::int64_t scratch_bytes = std::int64_t{1} << 25;

MPI_Datatype mpi_type(DType dtype);

/// Whether MPI reduces the type itself, and rightly: 16-bit floats it does not know, minimum and maximum of unsigned
/// types are wrong in Open MPI 4.1.4 and MPICH 4.0.2 (spec/backends.md, fact 10), those of floating types lose a NaN or
/// differ between the ranks, and sums of u8 saturate in Open MPI 4.1.4 where its AVX component runs.
bool is_native(DType dtype, layout::ReduceOp op);

std::unique_ptr<Collective> make_allgather(GroupPtr group, Operand in, Operand out, const layout::Segments& pieces,
                                           DType dtype);
std::unique_ptr<Collective> make_exchange(GroupPtr group, Operand in, std::vector<Transfer> sends, Operand out,
                                          std::vector<Transfer> receives, DType dtype);

/// MPI's own reduction of at most the count limit in all.
std::unique_ptr<Collective> make_native_reduce_scatter(GroupPtr group, Operand in, Operand out,
                                                       const layout::Segments& pieces, DType dtype,
                                                       layout::ReduceOp op);
std::unique_ptr<Collective> make_native_allreduce(GroupPtr group, Operand in, Operand out, std::int64_t count,
                                                  DType dtype, layout::ReduceOp op);
std::unique_ptr<Collective> make_broadcast(GroupPtr group, Operand data, std::int64_t bytes, int root);

/// Our own reduction: every rank receives its piece of each peer and reduces them in rank order, in bounded scratch;
/// any type and size. With `gather` the results then go to all ranks.
std::unique_ptr<Collective> make_exchange_reduce(GroupPtr group, Operand in, Operand out, layout::Segments pieces,
                                                 DType dtype, layout::ReduceOp op, bool gather);

/// Compares the descriptions of the ranks where the settings ask for it, then runs `operation`.
std::unique_ptr<Collective> make_checked(GroupPtr group, std::unique_ptr<Collective> operation);

} // namespace ostraka::comm::impl
