// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/environment.hpp>
#include <ostraka/base/error.hpp>
#include <ostraka/base/hash.hpp>
#include <ostraka/base/log.hpp>
#include <ostraka/comm/agreement.hpp>
#include <ostraka/comm/hierarchical/hierarchical_communicator.hpp>
#include <ostraka/comm/nccl/nccl_communicator.hpp>
#include <ostraka/comm/node/node_arena.hpp>
#include <ostraka/comm/node/node_communicator.hpp>
#include <ostraka/comm/node/segment.hpp>
#include <ostraka/comm/self/self_communicator.hpp>
#include <ostraka/comm/staged/staged_communicator.hpp>
#include <ostraka/memory/device_arena.hpp>
#include <ostraka/mesh/backend.hpp>
#include <ostraka/mesh/sharing.hpp>
#include <ostraka/runtime/device.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace ostraka::mesh {

namespace {

// Less than this for each rank, and a step of any size would soon find /dev/shm full (containers often have 64 MiB).
constexpr std::int64_t least_shared_memory = std::int64_t{1} << 28;

// Why NCCL cannot be used, on all ranks the same; empty: it can.
std::string reason_to_stage(MPI_Comm group, const comm::Node& node, const Settings& settings) {
  if (settings.stages)
    return "OSTRAKA_BACKEND=staged";
  if (!comm::has_nccl())
    return "this build has no NCCL";
  int size = 0;
  MPI_Comm_size(group, &size);
  const std::pair<std::int64_t, std::int64_t> own{node.id(), runtime::cuda_device_id()};
  std::vector<std::pair<std::int64_t, std::int64_t>> gpus(static_cast<std::size_t>(size));
  comm::check_mpi(MPI_Allgather(&own, sizeof own, MPI_BYTE, gpus.data(), sizeof own, MPI_BYTE, group), "mesh: GPUs");
  std::sort(gpus.begin(), gpus.end());
  const bool is_shared = std::adjacent_find(gpus.begin(), gpus.end()) != gpus.end();
  int can_share = comm::can_share_gpus() ? 1 : 0;
  comm::check_mpi(MPI_Allreduce(MPI_IN_PLACE, &can_share, 1, MPI_INT, MPI_MIN, group), "mesh: ranks of one GPU");
  return is_shared && can_share == 0 ? "several ranks use one GPU, which NCCL refuses" : "";
}

Home make_device_home(MPI_Comm group, const Settings& settings) {
  Home home;
  home.node = std::make_shared<const comm::Node>(group, 0); // a pretend node would hide that ranks share a GPU
  home.arena = memory::make_device_arena();
  const std::string reason = reason_to_stage(group, *home.node, settings);
  home.uses_nccl = reason.empty();
  if (home.uses_nccl) {
    home.scratch = memory::make_device_arena(); // how much NCCL needs places nothing of ours
    int registers = comm::can_register_memory() ? 1 : 0;
    comm::check_mpi(MPI_Allreduce(MPI_IN_PLACE, &registers, 1, MPI_INT, MPI_MIN, group), "mesh: NCCL's windows");
    if (registers != 0)
      home.symmetric = comm::make_registered_arena();
  }
  int rank = 0;
  MPI_Comm_rank(group, &rank);
  if (rank == 0)
    log::info(home.uses_nccl ? "GPUs: NCCL carries their memory"
                             : "GPUs: their memory goes through hosts and MPI, since " + reason);
  return home;
}

std::shared_ptr<comm::Communicator> make_device_communicator(MPI_Comm group, const std::string& name, const Home& home,
                                                             const Settings& settings) {
  auto host = comm::make_mpi_communicator(group, name + " (host)", settings.mpi);
  return home.uses_nccl ? comm::make_nccl_communicator(std::move(host), name, home.scratch, settings.mpi.checks,
                                                       settings.split == environment::NcclSplit::shared)
                        : comm::make_staged_communicator(std::move(host), name);
}

} // namespace

Settings Settings::from_environment() {
  const bool is_cuda = environment::device().is_cuda;
  // (How memory of GPUs goes says nothing about meshes on hosts.)
  return {comm::MpiSettings::from_environment(),
          environment::backend() != environment::Backend::mpi,
          environment::ranks_per_node(),
          is_cuda ? runtime::Device::cuda : runtime::Device::host,
          environment::backend() == environment::Backend::staged,
          environment::nccl_split()};
}

std::int64_t Settings::hash() const {
  return Hash()
      .add(mpi.checks)
      .add(mpi.count_limit)
      .add(shares_nodes)
      .add(ranks_per_node)
      .add(device)
      .add(stages)
      .add(split)
      .value();
}

Home make_home(MPI_Comm group, const Settings& settings) {
  if (settings.device == runtime::Device::cuda)
    return make_device_home(group, settings);
  auto node = std::make_shared<const comm::Node>(group, settings.ranks_per_node);
  if (settings.shares_nodes && node->size() > 1)
    try {
      std::int64_t free = comm::node::free_shared_memory(); // as rank 0 of the node sees it
      comm::check_mpi(MPI_Bcast(&free, 1, MPI_INT64_T, 0, node->ranks()), "node: free memory");
      expect(free >= least_shared_memory * node->size(), Status::OUT_OF_MEMORY, "/dev/shm has ", free,
             " bytes free for ", node->size(), " ranks");
      auto arena = comm::node::make_node_arena(node->ranks());
      return {std::move(node), std::move(arena), true, false, nullptr, nullptr};
    } catch (const Error& error) {
      if (error.status() != Status::OUT_OF_MEMORY)
        throw;
      if (node->rank() == 0) // all ranks of the node have this error
        log::warn(std::string("node: shared memory is not used, MPI carries everything: ") + error.what());
    }
  return {std::move(node), memory::make_host_arena(), false, false, nullptr, nullptr};
}

std::shared_ptr<memory::Arena> make_arena(const Home& home) {
  return home.shares_memory ? comm::node::make_node_arena(home.node->ranks())
                            : memory::make_arena(home.arena->device());
}

std::shared_ptr<comm::Communicator> make_communicator(MPI_Comm group, const std::string& name, const Home& home,
                                                      const Settings& settings) {
  int size = 0;
  MPI_Comm_size(group, &size);
  if (size == 1) {
    MPI_Comm_free(&group); // a group of one needs no messages
    return comm::make_self_communicator(name);
  }
  if (settings.device == runtime::Device::cuda)
    return make_device_communicator(group, name, home, settings);
  if (!settings.shares_nodes)
    return comm::make_mpi_communicator(group, name, settings.mpi);
  comm::NodeMap map = comm::map_nodes(group, home.shares_memory ? home.node.get() : nullptr);
  const Carrier carrier = carrier_of(size, map.nodes(), true);
  if (carrier == Carrier::mpi)
    return comm::make_mpi_communicator(group, name, settings.mpi);
  if (carrier == Carrier::hierarchical)
    return comm::make_hierarchical_communicator(group, name, std::move(map), home.arena, settings.mpi);
  auto communicator = comm::make_node_communicator(group, name, home.arena);
  MPI_Comm_free(&group);
  return communicator;
}

std::shared_ptr<comm::Communicator> make_communicator(MPI_Comm group, const std::string& name, const Home& home,
                                                      const Settings& settings, comm::Communicator& whole, int color) {
  int size = 0;
  MPI_Comm_size(group, &size);
  if (!home.uses_nccl || size == 1 || settings.split == environment::NcclSplit::off)
    return make_communicator(group, name, home, settings);
  auto host = comm::make_mpi_communicator(group, name + " (host)", settings.mpi);
  return comm::split_nccl_communicator(whole, color, std::move(host), name);
}

} // namespace ostraka::mesh
