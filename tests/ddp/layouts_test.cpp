// SPDX-License-Identifier: Apache-2.0
// Layouts that the configuration or the caller makes, in use.
#include "vectors.hpp"

namespace ostraka::ddp::test {
namespace {

/// As ddp plans them for `specs`, with other `options`.
std::vector<BufferLayout> plan(const std::vector<ParameterSpec>& specs, const BucketOptions& options) {
  std::vector<DType> gradients;
  for (const ParameterSpec& spec : specs)
    gradients.push_back(spec.dtype == DType::f64 ? DType::f64 : DType::f32);
  const GroupSizes sizes{ranks, options.sharded_optimizer ? ranks : 1};
  return plan_buffers(specs, gradients, options, sizes, {});
}

DdpPtr make(const buffer::MeshPtr& mesh, const Config& config, const std::vector<ParameterSpec>& specs) {
  const auto ddp = DistributedDataParallel::create(mesh, config);
  for (const ParameterSpec& spec : specs)
    ddp->add_parameter(spec);
  return ddp;
}

void expect_trains(DistributedDataParallel& ddp, const std::vector<ParameterSpec>& specs) {
  const auto optimizer = optim::make_sgd(ddp.named_states(), {.learning_rate = 1});
  for (int step = 1; step <= 2; ++step) {
    ddp.zero_grad_buffer();
    for (const ParameterSpec& spec : specs) {
      on_stream(ddp.mesh()->device(),
                [place = ddp.gradient(spec.name, DType::f64), ones = constant(layout::numel(spec.shape), 1)] {
                  add_elements(place, ones, DType::f64);
                });
      ddp.gradient_ready(spec.name);
    }
    ddp.finish_grad_sync();
    optimizer->step();
    for (const ParameterSpec& spec : specs) {
      const std::int64_t count = layout::numel(spec.shape);
      EXPECT_EQ(elements_at(ddp.parameter(spec.name, DType::f64), count, DType::f64), constant(count, -step));
    }
  }
}

TEST(Layouts, FollowFromTheConfiguration) {
  const auto mesh = make_mesh();
  const auto specs = letters(6);
  for_all_configs([&](const Config& config) {
    BucketOptions options = config;
    options.disable_bucketing = !config.overlap_grad_reduce;
    const auto ddp = make(mesh, config, specs);
    ddp->finalize();
    EXPECT_EQ(ddp->layouts(), plan(specs, options));
    EXPECT_EQ(ddp->layouts()[0].buckets.size(), config.overlap_grad_reduce ? 3 : 1);
  });
}

TEST(Layouts, OfTheCallerAreUsed) {
  const auto mesh = make_mesh();
  const auto specs = letters(6);
  for_all_configs([&](const Config& config) {
    BucketOptions options = config;
    options.bucket_size = 1;
    std::vector<BufferLayout> given = plan(specs, options);
    const auto ddp = make(mesh, config, specs);
    ddp->finalize(given);
    EXPECT_EQ(ddp->layouts(), given);
    EXPECT_EQ(ddp->named_states().size(), 6u);
    expect_trains(*ddp, specs);
  });
}

TEST(Layouts, WholeMatricesStayOnOneRank) {
  const auto mesh = make_mesh();
  const std::vector<ParameterSpec> specs = {{"a.w", {8, 8}}, {"b.w", {4, 30}}, {"c.w", {10, 3}}, {"d.w", {50}},
                                            {"e.w", {6, 6}}, {"f.w", {7, 9}},  {"g.w", {2, 2}}};
  for (const bool overlap : {false, true}) {
    Config config = make_config(true, overlap);
    config.arrangement = Arrangement::layer_wise;
    config.bucket_size = 100;
    const auto ddp = make(mesh, config, specs);
    ddp->finalize();
    int whole = 0;
    for (const buffer::NamedState& state : ddp->named_states())
      for (int t = 0; t < state.main_weight.layout()->num_tensors(); ++t) {
        const std::int64_t own = state.main_weight.tensor_range(t).count;
        EXPECT_TRUE(own == 0 || own == state.main_weight.layout()->tensor_range(t).size());
        whole += own != 0 ? 1 : 0;
      }
    EXPECT_EQ(sum_over_ranks(whole), 7);
    expect_trains(*ddp, specs);
  }
}

TEST(Layouts, WrongOnesAreRefusedOnAllRanks) {
  const auto mesh = make_mesh();
  const auto specs = letters(4);
  for (const bool sharded : {false, true}) {
    const Config config = make_config(sharded);
    const auto right = plan(specs, config);
    const auto ddp = make(mesh, config, specs);
    const std::pair<const char*, std::function<void(BufferLayout&)>> mistakes[] = {
        {"shards", [](BufferLayout& buffer) { ++buffer.shards; }},
        {"'d.w'", [](BufferLayout& buffer) { std::swap(buffer.parameters[0], buffer.parameters[1]); }},
        {"overlap", [](BufferLayout& buffer) { buffer.ranges[1] = buffer.ranges[0]; }},
        {"'b.w'", [](BufferLayout& buffer) { buffer.buckets.pop_back(); }}};
    for (const auto& [part, make_mistake] : mistakes) {
      auto wrong = right;
      if (rank == ranks - 1) // the others have right ones
        make_mistake(wrong[0]);
      expect_error_everywhere(Status::INVALID_ARGUMENT, [&] { ddp->finalize(wrong); },
                              {"rank " + std::to_string(ranks - 1), part});
    }
    EXPECT_FALSE(ddp->is_finalized());
    ddp->finalize(right);
    expect_trains(*ddp, specs);
  }
}

TEST(Layouts, DifferentOnesAreRefused) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto mesh = make_mesh();
  const auto specs = letters(4);
  for (const bool sharded : {false, true}) {
    const auto ddp = make(mesh, make_config(sharded), specs);
    BucketOptions other = make_config(sharded);
    other.bucket_size = 1;
    for (const bool is_given : {false, true}) {
      std::optional<std::vector<BufferLayout>> layouts;
      if (is_given)
        layouts = plan(specs, make_config(sharded));
      if (rank == 0)
        layouts = plan(specs, other);
      expect_error_everywhere(Status::RANKS_DISAGREE, [&] { ddp->finalize(layouts); },
                              {"layouts", "f64 parameters with f64 gradients"});
    }
    if (rank == 0)
      ddp->finalize(plan(specs, make_config(sharded))); // equal ones, whoever made them
    else
      ddp->finalize();
    expect_trains(*ddp, specs);
  }
}

} // namespace
} // namespace ostraka::ddp::test
