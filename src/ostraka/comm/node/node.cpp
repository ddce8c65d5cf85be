// SPDX-License-Identifier: Apache-2.0
#include <ostraka/comm/mpi/mpi_communicator.hpp>
#include <ostraka/comm/node/node.hpp>

#include <array>

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

bool share_a_node(MPI_Comm line, const Node* node) {
  int rank = 0;
  MPI_Comm_rank(line, &rank);
  const int id = node != nullptr ? node->id() : -1 - rank; // nobody else's
  std::array<int, 2> extremes{id, -id};
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, extremes.data(), 2, MPI_INT, MPI_MAX, line), "node: numbers");
  return extremes[0] == -extremes[1];
}

} // namespace ostraka::comm
