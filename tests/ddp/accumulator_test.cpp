// SPDX-License-Identifier: Apache-2.0
// Gradients of bf16 that are accumulated in f32 (spec 6.6), for parameters chosen by pattern.
#include "vectors.hpp"

namespace ostraka::ddp::test {
namespace {

Config accumulating(Config config) {
  config.gradient_dtype = DType::bf16;
  config.scaling = Scaling::sum;
  config.f32_accumulators = {"*.wide"};
  return config;
}

std::vector<ParameterSpec> wide_and_narrow() {
  return {vector_of("a.wide", 25, DType::bf16), vector_of("a.narrow", 30, DType::bf16),
          vector_of("b.wide", 35, DType::f32), vector_of("b.narrow", 20, DType::bf16)};
}

// 256 + 1 + 1: bf16 loses each 1, f32 does not, and 258 is a number of bf16.
TEST(Accumulators, KeepWhatBf16Loses) {
  const auto mesh = make_mesh();
  for_all_configs([&](const Config& config) {
    Vectors v(mesh, accumulating(config), wide_and_narrow());
    EXPECT_EQ(v.ddp->gradient_dtype("a.wide"), DType::f32);
    EXPECT_EQ(v.ddp->gradient_dtype("a.narrow"), DType::bf16);
    for (int step = 0; step < 2; ++step) { // starts from zero each time
      v.ddp->zero_grad_buffer();
      {
        const auto scope = v.ddp->no_sync();
        v.backward(rank == 0 ? 256 : 0);
        v.backward(rank == 0 ? 1 : 0);
      }
      v.backward(rank == 0 ? 1 : 0);
      v.ddp->finish_grad_sync();
      for (const char* letter : {"a", "b"}) {
        v.expect_gradient(std::string(letter) + ".wide", 258);
        v.expect_gradient(std::string(letter) + ".narrow", 256);
      }
    }
  });
}

TEST(Accumulators, AreCopiedBothWaysAndScaled) {
  const auto mesh = make_mesh();
  for (const bool sharded : {false, true}) {
    Vectors v(mesh, accumulating(make_config(sharded)), wide_and_narrow());
    void* accumulator = nullptr;
    const auto expect_accumulated = [&](double value) {
      EXPECT_EQ(elements_at(accumulator, 25, DType::f32), constant(25, value));
    };
    for (int step = 0; step < 2; ++step) {
      v.ddp->zero_grad_buffer();
      {
        const auto scope = v.ddp->no_sync();
        v.backward(3);
        accumulator = v.ddp->gradient("a.wide", DType::f32).data;
        v.ddp->scale_gradients(2);
        expect_accumulated(6);
      }
      v.backward(2);
      v.ddp->finish_grad_sync(true);
      expect_accumulated(8 * ranks); // reduced
      v.expect_gradient("a.wide", 8 * ranks);
      v.expect_gradient("a.narrow", 8 * ranks);
      v.ddp->scale_gradients(0.5);
      expect_accumulated(4 * ranks);
      v.expect_gradient("a.wide", 4 * ranks);
    }
  }
}

TEST(Accumulators, NobodyWroteIsZero) {
  const auto mesh = make_mesh();
  for_all_configs([&](const Config& config) {
    Vectors v(mesh, accumulating(config), wide_and_narrow());
    v.backward(3);
    v.ddp->finish_grad_sync();
    v.ddp->set_uses("a.wide", 0);
    v.ddp->zero_grad_buffer();
    for (const char* name : {"b.narrow", "b.wide", "a.narrow"})
      v.contribute(name, 3);
    v.ddp->finish_grad_sync();
    v.expect_gradient("a.wide", 0);
    v.expect_gradient("b.wide", 3 * ranks);
  });
}

TEST(Accumulators, AskedForInTheirType) {
  Vectors v(make_mesh(), accumulating(make_config(false)), wide_and_narrow());
  expect_error(Status::TYPE_MISMATCH, [&] { v.ddp->gradient("a.wide", DType::bf16); }, {"'a.wide'", "f32", "bf16"});
  expect_error(Status::TYPE_MISMATCH, [&] { v.ddp->gradient("a.narrow", DType::f32); }, {"'a.narrow'", "bf16", "f32"});
  v.backward(1);
  v.ddp->finish_grad_sync();
  v.expect_gradients(ranks);
}

TEST(Accumulators, AreRefusedBesideOtherTypes) {
  const auto mesh = make_mesh();
  Config config;
  config.f32_accumulators = {"*"};
  for (const std::optional<DType> gradient : {std::optional<DType>(), std::optional(DType::f32)}) {
    config.gradient_dtype = gradient;
    expect_error_everywhere(Status::INVALID_ARGUMENT, [&] { DistributedDataParallel::create(mesh, config); },
                            {"f32_accumulators", "bf16"});
  }
  config.gradient_dtype = DType::bf16;
  config.f32_accumulators = {"*.w", "nothing*"};
  const auto ddp = DistributedDataParallel::create(mesh, config);
  ddp->add_parameter(vector_of("a.w", 3));
  expect_error_everywhere(Status::INVALID_ARGUMENT, [&] { ddp->finalize(); }, {"'nothing*'", "f32_accumulators"});
  ddp->add_parameter(vector_of("nothing.b", 3));
  ddp->finalize();
  EXPECT_EQ(ddp->gradient_dtype("nothing.b"), DType::f32);
}

} // namespace
} // namespace ostraka::ddp::test
