// SPDX-License-Identifier: Apache-2.0
// Parameters of experts: reduced over the ranks that have the same ones, divided by the number of all ranks.
#include "vectors.hpp"

namespace ostraka::ddp::test {
namespace {

/// Calls body(mesh, experts) for every number of ranks that may share experts.
template <class Body>
void for_all_experts(Body&& body) {
  const auto mesh = make_mesh();
  for (int sharers = 1; sharers <= ranks; ++sharers)
    if (ranks % sharers == 0) {
      SCOPED_TRACE(std::to_string(sharers) + " ranks share experts");
      body(mesh, Experts(sharers));
    }
}

// Spec 6.6: a rank's value is 2^rank, so a sum says who was in it.
TEST(Experts, SumsOverExactlyTheirRanks) {
  for_all_experts([](const buffer::MeshPtr& mesh, const Experts& experts) {
    for_all_configs([&](Config config) {
      for (const Scaling scaling : {Scaling::mean, Scaling::pre_scale, Scaling::sum}) {
        config.scaling = scaling;
        Vectors v(mesh, config,
                  {vector_of("a.w", 30), expert(vector_of("b.w", 30)), vector_of("c.w", 30),
                   expert(vector_of("d.w", 30, DType::f32)), expert(frozen(vector_of("e.w", 3)))},
                  experts.mesh);
        const double all = std::ldexp(1, ranks) - 1, divisor = scaling == Scaling::sum ? 1 : ranks;
        for (int step = 0; step < 2; ++step) {
          v.ddp->zero_grad_buffer();
          v.backward(std::ldexp(ranks, rank)); // exact when it is divided
          v.ddp->finish_grad_sync();
          const int holders = config.sharded_optimizer ? 1 : ranks;
          v.expect_gradient("a.w", all * ranks / divisor, holders);
          v.expect_gradient("c.w", all * ranks / divisor, holders);
          const int expert_holders = config.sharded_optimizer ? experts.kinds : ranks;
          v.expect_gradient("b.w", experts.sum * ranks / divisor, expert_holders);
          v.expect_gradient("d.w", experts.sum * ranks / divisor, expert_holders);
        }
      }
    });
  });
}

// Their own mesh may have replicas and shards, too.
TEST(Experts, OnAPlane) {
  if (ranks % 4 != 0)
    GTEST_SKIP() << "needs experts of two by two ranks";
  const auto plane = make_plane();
  const Experts experts(4);
  const auto expert_plane = [] {
    MPI_Comm group = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank % (ranks / 4), rank, &group);
    auto mesh = mesh::DeviceMesh::create(group, {2, 2});
    MPI_Comm_free(&group);
    return mesh;
  }();
  for_all_configs([&](const Config& config) {
    Vectors v(plane, config, {vector_of("a.w", 30), expert(vector_of("b.w", 30))}, expert_plane);
    for (int step = 0; step < 2; ++step) {
      v.ddp->zero_grad_buffer();
      v.backward(std::ldexp(ranks, rank));
      v.ddp->finish_grad_sync(step == 1);
      v.expect_gradient("a.w", std::ldexp(1, ranks) - 1);
      v.expect_gradient("b.w", experts.sum, config.sharded_optimizer ? ranks / 2 : ranks);
    }
  });
}

// Other names, sizes and so other buckets, wherever the ranks have other experts; starts have one order all the same.
TEST(Experts, MayBeUnlike) {
  for_all_experts([](const buffer::MeshPtr& mesh, const Experts& experts) {
    for_all_configs([&](const Config& config) {
      const int kind = rank % experts.kinds;
      const std::string x = "x" + std::to_string(kind) + ".w", y = "y" + std::to_string(kind) + ".w";
      const std::int64_t size = 10 + 40 * kind;
      Vectors v(mesh, config,
                {vector_of("a.w", 30), expert(vector_of(x, size)), vector_of("b.w", 30), vector_of("c.w", 30),
                 expert(vector_of(y, size, kind % 2 == 0 ? DType::f64 : DType::f32))},
                experts.mesh);
      v.set(x, 10 * kind);
      v.set(y, 20 * kind);
      const auto optimizer = optim::make_sgd(v.ddp->named_states(), {.learning_rate = 1});
      optimizer->set_group("b.w", {.weight_decay = 0});
      for (int step = 1; step <= 3; ++step) {
        v.ddp->zero_grad_buffer();
        for (const std::string& name : {y, std::string("c.w"), x, std::string("b.w"), std::string("a.w")})
          v.contribute(name, ranks);
        v.ddp->finish_grad_sync();
        optimizer->step();
        const int sharers = ranks / experts.kinds;
        for (const std::string& name : {std::string("a.w"), std::string("b.w"), std::string("c.w")})
          v.expect_weight(name, (name == "a.w" ? 1 : name[0] - 'a' + 2) - step * ranks);
        v.expect_weight(x, 10 * kind - step * sharers);
        v.expect_weight(y, 20 * kind - step * sharers);
      }
    });
  });
}

TEST(Experts, WeightsAreComparedAndSentAmongTheirRanks) {
  for_all_experts([](const buffer::MeshPtr& mesh, const Experts& experts) {
    Vectors v(mesh, make_config(false), {vector_of("a.w", 30), expert(vector_of("b.w", 30))}, experts.mesh);
    v.set("b.w", rank % experts.kinds); // as it should be
    v.backward(1);
    v.ddp->finish_grad_sync();
    v.set("b.w", rank);
    v.set("a.w", rank);
    v.ddp->broadcast_params();
    v.expect_weight("a.w", 0);
    v.expect_weight("b.w", rank % experts.kinds);
    Vectors w(mesh, make_config(false), {vector_of("a.w", 30), expert(vector_of("b.w", 30))}, experts.mesh);
    if (ranks / experts.kinds == 1)
      return;
    if (rank == ranks - 1)
      w.set("b.w", 5);
    w.backward(1);
    expect_error_everywhere(Status::RANKS_DISAGREE, [&] { w.ddp->finish_grad_sync(); }, {"'b.w'"});
  });
}

TEST(Experts, MissingGradientsFailOnAllRanks) {
  for_all_experts([](const buffer::MeshPtr& mesh, const Experts& experts) {
    for_all_configs([&](const Config& config) {
      Vectors v(mesh, config, {vector_of("a.w", 30), expert(vector_of("b.w", 30)), vector_of("c.w", 30)}, experts.mesh);
      v.contribute("c.w", 1);
      if (rank != 0)
        v.contribute("b.w", 1);
      v.contribute("a.w", 1);
      expect_error_everywhere(Status::INVALID_STATE, [&] { v.ddp->finish_grad_sync(); }, {"rank 0", "'b.w'"});
      v.ddp->zero_grad_buffer();
      v.backward(1);
      v.ddp->finish_grad_sync();
    });
  });
}

TEST(Experts, Mistakes) {
  const auto mesh = make_mesh();
  const auto ddp = DistributedDataParallel::create(mesh);
  expect_error(Status::INVALID_ARGUMENT, [&] { ddp->add_parameter(expert(vector_of("a.w", 3))); },
               {"'a.w'", "expert mesh"});
  if (ranks != 3)
    return;
  MPI_Comm group = MPI_COMM_NULL; // two ranks and one
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &group);
  const auto uneven = mesh::DeviceMesh::create_line(group);
  MPI_Comm_free(&group);
  expect_error_everywhere(Status::INVALID_ARGUMENT,
                          [&] { DistributedDataParallel::create(mesh, make_config(false), uneven); },
                          {"expert mesh has 2 ranks", "divisor of the 3"});
}

TEST(Experts, OnSomeRanksOnly) {
  const auto mesh = make_mesh();
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const Experts experts(1);
  expect_error(Status::RANKS_DISAGREE,
               [&] { DistributedDataParallel::create(mesh, make_config(false), rank == 0 ? experts.mesh : nullptr); },
               {"expert mesh"});
}

} // namespace
} // namespace ostraka::ddp::test
