// SPDX-License-Identifier: Apache-2.0
// A communicator of all ranks and operands for it.
#pragma once

#include "support/elements.hpp"
#include "support/expect_error.hpp"
#include "support/world.hpp"
#include <ostraka/comm/backend.hpp>
#include <ostraka/comm/communicator.hpp>
#include <ostraka/comm/mpi/mpi_communicator.hpp>

#include <memory>
#include <vector>

namespace ostraka::comm::test {

using namespace ostraka::test;

/// Both back ends where there is one rank, MPI otherwise. Collective.
inline std::vector<std::shared_ptr<Communicator>> all_groups(const char* name) {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  std::vector<std::shared_ptr<Communicator>> groups{make_mpi_communicator(copy, name)};
  if (ranks == 1)
    groups.push_back(make_self_communicator(name));
  return groups;
}

/// Storage that holds `values` in `dtype`.
inline Operand operand(const std::vector<double>& values, DType dtype) {
  const std::vector<std::byte> bytes = encode(values, dtype);
  const auto storage = std::make_shared<memory::Storage>(memory::make_host_arena(),
                                                         static_cast<std::int64_t>(bytes.size()), memory::Kind::other);
  if (!bytes.empty())
    std::memcpy(storage->data(), bytes.data(), bytes.size());
  return {storage, 0};
}

inline Operand operand(std::int64_t count, double value, DType dtype) {
  return operand(std::vector<double>(static_cast<std::size_t>(count), value), dtype);
}

/// The part of `whole` from element `first` on.
inline Operand part(const Operand& whole, std::int64_t first, DType dtype) {
  return {whole.storage, whole.byte_offset + first * width_of(dtype)};
}

inline std::vector<double> values(const Operand& from, std::int64_t count, DType dtype) {
  return count == 0 ? std::vector<double>{} : elements(from.data(), count, dtype);
}

} // namespace ostraka::comm::test
