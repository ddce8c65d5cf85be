// SPDX-License-Identifier: Apache-2.0
#include <ostraka/comm/mpi/mpi_communicator.hpp>
#include <ostraka/comm/node/node.hpp>

#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

namespace ostraka::comm {

Node::Node(MPI_Comm group, int ranks_per_node) {
  int group_rank = 0;
  MPI_Comm_rank(group, &group_rank);
  MPI_Comm real = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(group, MPI_COMM_TYPE_SHARED, group_rank, MPI_INFO_NULL, &real), "node: split");
  int rank = 0;
  MPI_Comm_rank(real, &rank);
  const int piece = ranks_per_node == 0 ? 0 : rank / ranks_per_node;
  const int code = MPI_Comm_split(real, piece, rank, &ranks_);
  MPI_Comm_free(&real);
  check_mpi(code, "node: split");
  MPI_Comm_rank(ranks_, &rank_);
  MPI_Comm_size(ranks_, &size_);
  id_ = group_rank; // of the first of its ranks
  check_mpi(MPI_Bcast(&id_, 1, MPI_INT, 0, ranks_), "node: number");
}

Node::~Node() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0)
    MPI_Comm_free(&ranks_);
}

NodeMap map_nodes(MPI_Comm line, const Node* node) {
  int rank = 0, size = 0;
  MPI_Comm_rank(line, &rank);
  MPI_Comm_size(line, &size);
  const int id = node != nullptr ? node->id() : -1 - rank; // nobody else's
  std::vector<int> ids(static_cast<std::size_t>(size));
  check_mpi(MPI_Allgather(&id, 1, MPI_INT, ids.data(), 1, MPI_INT, line), "node: numbers");
  return NodeMap(ids);
}

namespace {

// Linux tells of each processor which cache it shares with which; each cache counts where its first one is.
std::int64_t third_level_caches() {
  std::int64_t kib = 0;
  for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); ++cpu) {
    const std::string cache = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index3/";
    long first = -1;
    std::int64_t size = 0;
    if (std::ifstream(cache + "shared_cpu_list") >> first && first == cpu && std::ifstream(cache + "size") >> size)
      kib += size;
  }
  return kib * 1024;
}

} // namespace

std::int64_t last_level_cache_bytes() {
  static const std::int64_t bytes = [] {
    constexpr std::int64_t usual = std::int64_t{32} << 20;
    const std::int64_t found = third_level_caches();
    return found > 0 ? found : usual;
  }();
  return bytes;
}

} // namespace ostraka::comm
