// SPDX-License-Identifier: Apache-2.0
// What is allocated, when, and that it is given back.
#include "network.hpp"
#include "vectors.hpp"

namespace ostraka::ddp::test {
namespace {

using memory::Kind;
using ArenaPtr = std::shared_ptr<memory::Arena>;

ArenaPtr arena_of(DistributedDataParallel& ddp) { return ddp.named_states().front().main_gradient.storage()->arena(); }

/// Once queued work keeps nothing.
std::int64_t in_use(const memory::Arena& arena) {
  settle(arena.device());
  runtime::progress_all();
  std::int64_t bytes = 0;
  for (int kind = 0; kind < memory::num_kinds; ++kind)
    bytes += arena.usage(static_cast<Kind>(kind)).in_use;
  return bytes;
}

Options options_of(const Config& config, DType storage, bool is_adamw) {
  Options options;
  options.net = mlp({6, 9, 5, 2});
  options.config = config;
  options.storages = {storage, DType::f32};
  options.optimizer.is_adamw = is_adamw;
  options.micro_batches = 2;
  return options;
}

TEST(Memory, SteadyStepsAllocateNothing) {
  for (const auto& mesh : {make_mesh(), make_plane()})
    for_all_configs([&](Config config) {
      for (const DType gradient : {DType::f32, DType::bf16})
        for (const DType storage : {DType::f64, DType::bf16}) {
          config.gradient_dtype = gradient;
          config.f32_accumulators.clear();
          if (gradient == DType::bf16)
            config.f32_accumulators = {"*.bias"};
          Training t(mesh, options_of(config, storage, true));
          t.step();
          t.step();
          const ArenaPtr arena = arena_of(t.ddp());
          const int growths = arena->growths();
          const std::int64_t bytes = in_use(*arena);
          for (int step = 0; step < 3; ++step) {
            t.step();
            EXPECT_EQ(in_use(*arena), bytes);
          }
          t.backward_all();
          t.ddp().scale_gradients(2);
          EXPECT_EQ(in_use(*arena), bytes);
          EXPECT_EQ(arena->growths(), growths);
        }
    });
}

std::int64_t rounded(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// What memory() has to say of `layouts`, and frozen parameters of `frozen_bytes`; every piece is rounded up.
MemoryReport expected(const std::vector<BufferLayout>& layouts, const Config& config, std::int64_t frozen_bytes,
                      int states_of_optimizer) {
  MemoryReport report;
  report.parameters = rounded(frozen_bytes);
  for (const BufferLayout& buffer : layouts) {
    const DType main = main_dtype_of(config, buffer.key.parameter);
    report.parameters += rounded(buffer.size() * width_of(buffer.key.parameter));
    report.gradients += rounded(buffer.size() * width_of(buffer.key.gradient));
    for (const BucketLayout& bucket : buffer.buckets) {
      const std::int64_t own = rounded(bucket.range.size() / buffer.shards * width_of(main));
      report.parameters += main != buffer.key.parameter ? own : 0;
      report.gradients += main != buffer.key.gradient ? own : 0;
      report.optimizer_state += states_of_optimizer * own;
    }
  }
  return report;
}

TEST(Memory, ReportIsExact) {
  const auto mesh = make_mesh();
  for_all_configs([&](Config config) {
    for (const std::optional<DType> gradient : {std::optional<DType>(), std::optional(DType::bf16)}) {
      config.gradient_dtype = gradient;
      Vectors v(mesh, config,
                {vector_of("a.w", 1000), vector_of("b.w", 333, DType::bf16), frozen(vector_of("b.fixed", 17)),
                 vector_of("c.w", 700, DType::bf16), vector_of("d.w", 50, DType::f32)});
      const auto optimizer = optim::make_adamw(v.ddp->named_states(), {});
      for (const int states : {0, 2}) {
        const MemoryReport found = v.ddp->memory(), right = expected(v.ddp->layouts(), config, 17 * 8, states);
        EXPECT_EQ(found.parameters, right.parameters);
        EXPECT_EQ(found.gradients, right.gradients);
        EXPECT_EQ(found.optimizer_state, right.optimizer_state);
        EXPECT_EQ(found.num_elements, 1000 + 333 + 17 + 700 + 50);
        EXPECT_GE(found.reserved, found.parameters + found.gradients + found.optimizer_state);
        v.ddp->zero_grad_buffer();
        v.backward(1);
        v.ddp->finish_grad_sync();
        optimizer->step();
      }
    }
  });
}

TEST(Memory, EverythingIsGivenBack) {
  const auto mesh = make_mesh();
  const std::int64_t before = in_use(*mesh->arena());
  for_all_configs([&](const Config& config) {
    auto t = std::make_unique<Training>(mesh, options_of(config, DType::bf16, true));
    t->step();
    t->ddp().start_param_sync(); // in flight
    const ArenaPtr arena = arena_of(t->ddp());
    EXPECT_GT(in_use(*arena), 0);
    t->destroy();
    EXPECT_EQ(in_use(*arena), 0);
  });
  EXPECT_EQ(in_use(*mesh->arena()), before);
}

// On all ranks; nobody finishes them.
TEST(Memory, ReductionsInFlightAreWaitedFor) {
  const auto mesh = make_mesh();
  for_all_configs([&](const Config& config) {
    ArenaPtr arena;
    {
      Lowered v(mesh, config);
      v.step();
      v.ddp->zero_grad_buffer();
      v.backward(1);
      v.ddp->start_grad_sync();
      arena = arena_of(*v.ddp);
    }
    EXPECT_EQ(in_use(*arena), 0);
  });
}

TEST(Memory, ExpertsAreCounted) {
  const auto mesh = make_mesh(), alone = mesh::DeviceMesh::create(MPI_COMM_SELF, {1});
  Vectors v(mesh, make_config(false), {vector_of("a.w", 1000), expert(vector_of("b.w", 5000))}, alone);
  EXPECT_GE(v.ddp->memory().parameters, 6000 * 8);
  EXPECT_GE(v.ddp->memory().gradients, 6000 * 8);
}

// --- gradients that are given back for a while

void expect_zero(const buffer::DBuffer& gradient) {
  EXPECT_EQ(elements_at(gradient.data(), gradient.numel(), gradient.dtype()), constant(gradient.numel(), 0));
}

TEST(Offload, GivesBackAndRestoresZeros) {
  const auto mesh = make_mesh();
  for_all_configs([&](Config config) {
    for (const std::optional<DType> gradient : {std::optional<DType>(), std::optional(DType::bf16)}) {
      config.gradient_dtype = gradient;
      if (gradient)
        config.f32_accumulators = {"b.*"};
      Lowered v(mesh, config, letters(5));
      v.step();
      v.step();
      const std::int64_t gradients = v.ddp->memory().gradients, reserved = v.ddp->memory().reserved;
      const auto states = v.ddp->named_states();
      for (int round = 0; round < 3; ++round) {
        v.ddp->offload_grad_buffers();
        EXPECT_EQ(v.ddp->memory().gradients, 0);
        EXPECT_LE(v.ddp->memory().reserved, reserved - gradients); // to the system
        for (const buffer::NamedState& state : states)
          EXPECT_FALSE(state.main_gradient.is_allocated());
        v.expect_all_current(); // weights are not concerned
        v.ddp->restore_grad_buffers();
        EXPECT_EQ(v.ddp->memory().gradients, gradients);
        EXPECT_EQ(v.ddp->memory().reserved, reserved);
        for (const buffer::NamedState& state : states)
          expect_zero(state.main_gradient); // which is valid again
        v.step();
      }
      v.expect_all_current();
    }
  });
}

TEST(Offload, AfterContributionsThatDoNotCountThen) {
  Vectors v(make_mesh(), make_config(false), letters(3));
  {
    const auto scope = v.ddp->no_sync();
    v.backward(5);
  }
  v.ddp->offload_grad_buffers();
  v.ddp->restore_grad_buffers();
  v.expect_usable("an offload");
}

TEST(Offload, WhatNeedsGradientsIsRefused) {
  Vectors v(make_mesh(), make_config(false), letters(2));
  expect_error(Status::INVALID_STATE, [&] { v.ddp->restore_grad_buffers(); }, {"not offloaded"});
  v.ddp->offload_grad_buffers();
  const std::pair<const char*, std::function<void()>> operations[] = {
      {"gradient", [&] { v.ddp->gradient("a.w", DType::f64); }},
      {"gradient_ready", [&] { v.ddp->gradient_ready("a.w"); }},
      {"start_grad_sync", [&] { v.ddp->start_grad_sync(); }},
      {"finish_grad_sync", [&] { v.ddp->finish_grad_sync(); }},
      {"zero_grad_buffer", [&] { v.ddp->zero_grad_buffer(); }},
      {"scale_gradients", [&] { v.ddp->scale_gradients(2); }},
      {"offload_grad_buffers", [&] { v.ddp->offload_grad_buffers(); }}};
  for (const auto& [name, operation] : operations)
    expect_error(Status::INVALID_STATE, operation, {name, "restore_grad_buffers"});
  EXPECT_THROW(v.ddp->main_gradient("a.w", DType::f64), Error);
  v.ddp->broadcast_params();
  v.ddp->restore_grad_buffers();
  v.expect_usable("mistakes while gradients were offloaded");
}

} // namespace
} // namespace ostraka::ddp::test
