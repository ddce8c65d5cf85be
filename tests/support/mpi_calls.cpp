// SPDX-License-Identifier: Apache-2.0
#include "mpi_calls.hpp"

#include <mpi.h>

#include <algorithm>

namespace {

using ostraka::test::mpi_calls;

/// Notes a call; true when it shall fail.
bool note(const char* name, std::int64_t count, std::int64_t largest) {
  ++mpi_calls.number[name];
  mpi_calls.counts.push_back(count);
  mpi_calls.largest = std::max({mpi_calls.largest, count, largest});
  return mpi_calls.failing == name && mpi_calls.after-- <= 0;
}

bool note(const char* name, int count) { return note(name, count, count); }

/// Of collectives: in their order.
void note_collective(const char* name, std::int64_t count, MPI_Comm comm) {
  mpi_calls.collectives[static_cast<int>(MPI_Comm_c2f(comm))].push_back(name + (" " + std::to_string(count)));
}

int size_of(MPI_Comm comm) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  return size;
}

/// What the standard forbids, whatever an implementation makes of it; MPICH finds equal pointers.
bool overlap(const void* a, std::int64_t a_count, const void* b, std::int64_t b_count, MPI_Datatype type) {
  int width = 0;
  PMPI_Type_size(type, &width);
  const auto *a_begin = static_cast<const char*>(a), *b_begin = static_cast<const char*>(b);
  if (a == MPI_IN_PLACE || a == nullptr)
    return false;
  return a == b || (a_begin < b_begin + b_count * width && b_begin < a_begin + a_count * width);
}

std::int64_t total(const int* counts, std::int64_t number) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < number; ++i)
    sum += counts[i];
  return sum;
}

} // namespace

extern "C" {

int MPI_Iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  note_collective("MPI_Iallreduce", count, comm);
  return note("MPI_Iallreduce", count) ? MPI_ERR_OTHER : PMPI_Iallreduce(in, out, count, type, op, comm, request);
}

int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  return note("MPI_Ibcast", count) ? MPI_ERR_OTHER : PMPI_Ibcast(data, count, type, root, comm, request);
}

int MPI_Iallgather(const void* in, int sends, MPI_Datatype send_type, void* out, int count, MPI_Datatype type,
                   MPI_Comm comm, MPI_Request* request) {
  note_collective("MPI_Iallgather", count, comm);
  if (note("MPI_Iallgather", count) || overlap(in, sends, out, std::int64_t{count} * size_of(comm), type))
    return MPI_ERR_BUFFER;
  return PMPI_Iallgather(in, sends, send_type, out, count, type, comm, request);
}

int MPI_Iallgatherv(const void* in, int sends, MPI_Datatype send_type, void* out, const int* counts, const int* offsets,
                    MPI_Datatype type, MPI_Comm comm, MPI_Request* request) {
  const std::int64_t whole = total(counts, size_of(comm));
  const std::int64_t largest = *std::max_element(offsets, offsets + size_of(comm));
  if (note("MPI_Iallgatherv", whole, largest) || overlap(in, sends, out, whole, type))
    return MPI_ERR_BUFFER;
  return PMPI_Iallgatherv(in, sends, send_type, out, counts, offsets, type, comm, request);
}

int MPI_Ireduce_scatter(const void* in, void* out, const int* counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                        MPI_Request* request) {
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  const std::int64_t whole = total(counts, size_of(comm));
  if (note("MPI_Ireduce_scatter", whole, whole) || overlap(in, whole, out, counts[rank], type))
    return MPI_ERR_BUFFER;
  return PMPI_Ireduce_scatter(in, out, counts, type, op, comm, request);
}

int MPI_Ireduce_scatter_block(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                              MPI_Request* request) {
  note_collective("MPI_Ireduce_scatter_block", count, comm);
  const std::int64_t whole = std::int64_t{count} * size_of(comm);
  if (note("MPI_Ireduce_scatter_block", whole, whole) || overlap(in, whole, out, count, type))
    return MPI_ERR_BUFFER;
  return PMPI_Ireduce_scatter_block(in, out, count, type, op, comm, request);
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request* request) {
  return note("MPI_Isend", count) ? MPI_ERR_OTHER : PMPI_Isend(data, count, type, peer, tag, comm, request);
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request* request) {
  int width = 0;
  PMPI_Type_size(type, &width);
  mpi_calls.received += std::int64_t{count} * width;
  mpi_calls.largest_receive = std::max(mpi_calls.largest_receive, std::int64_t{count} * width);
  return note("MPI_Irecv", count) ? MPI_ERR_OTHER : PMPI_Irecv(data, count, type, peer, tag, comm, request);
}

int MPI_Type_create_hindexed(int number, const int* counts, const MPI_Aint* offsets, MPI_Datatype type,
                             MPI_Datatype* result) {
  return note("MPI_Type_create_hindexed", number, total(counts, number))
             ? MPI_ERR_OTHER
             : PMPI_Type_create_hindexed(number, counts, offsets, type, result);
}

int MPI_Type_free(MPI_Datatype* type) {
  note("MPI_Type_free", 0);
  return PMPI_Type_free(type);
}

} // extern "C"
