// SPDX-License-Identifier: Apache-2.0
// Weights handed out in a type of the caller's choice, beside that of storage, gradients and main weights.
#include "network.hpp"

namespace ostraka::fsdp::test {
namespace {

constexpr int count = 45;

/// One module of one parameter w = 0, 1/8, 2/8, ...: exact in all types.
class OneParameter {
public:
  OneParameter(Recipe recipe, DType storage, DType compute) : compute_(compute) {
    ContextConfig config = make_config(recipe, layout::ReduceOp::sum);
    config.compute_dtype = compute;
    context = FsdpContext::create(make_mesh(), config);
    module = &context->add_module("m");
    module->add_parameter({"w", {count}, storage, true});
    module->build();
    for (int i = 0; i < count; ++i)
      expected.push_back(i / 8.0);
    module->set_parameter("w", expected.data(), count, DType::f64);
    context->finalize();
  }

  void expect_weights() const { ASSERT_EQ(elements_at(module->parameter("w", compute_), count, compute_), expected); }

  /// A forward and a backward pass; every rank contributes 1/4.
  void pass(DType gradient_type) const {
    module->pre_forward();
    expect_weights();
    module->post_forward();
    module->pre_backward();
    expect_weights();
    const auto quarters = encode(std::vector<double>(count, 0.25), gradient_type);
    write_at(module->gradient("w", gradient_type).data, quarters.data(), std::ssize(quarters));
    module->post_backward();
    context->finish_backward();
  }

  std::shared_ptr<FsdpContext> context;
  FsdpModule* module;
  std::vector<double> expected;

private:
  DType compute_;
};

DType gradient_type_of(DType storage) { return storage == DType::f64 ? DType::f64 : DType::f32; }

TEST(ComputeType, AnyTypeForAnyStorage) {
  for (const Recipe recipe : all_recipes)
    for (const DType storage : {DType::f64, DType::f32, DType::bf16})
      for (const DType compute : {DType::f64, DType::f32, DType::bf16}) {
        SCOPED_TRACE(std::string(text(recipe)) + ", " + name(storage) + " as " + name(compute));
        OneParameter one(recipe, storage, compute);
        const auto sgd = optim::make_sgd(one.context->named_states(), {1, 0, 0});
        one.context->zero_grad();
        one.pass(gradient_type_of(storage));
        sgd->step();
        for (double& value : one.expected)
          value -= 0.25 * ranks;
        one.module->unshard();
        one.expect_weights();
        one.module->reshard();
        EXPECT_EQ(one.context->memory().transient, 0);
      }
}

TEST(ComputeType, StoredWeightsAreNotCopied) {
  const OneParameter one(Recipe::zero_3, DType::bf16, DType::bf16);
  one.module->unshard();
  const std::int64_t found = one.context->memory().transient, whole = count * 2;
  one.module->reshard();
  EXPECT_LE(found, shares_weights() ? 0 : whole + 16 * ranks + 128 + (sharing_ranks() > 1 ? 4096 : 0));
}

TEST(ComputeType, OthersAreRefused) {
  ContextConfig config = make_config(Recipe::zero_3);
  config.compute_dtype = DType::i32;
  const auto mesh = make_mesh();
  expect_error(Status::TYPE_MISMATCH, [&] { FsdpContext::create(mesh, config); }, {"compute type", "i32"});
  const OneParameter one(Recipe::zero_3, DType::f32, DType::f64);
  one.module->unshard();
  expect_error(Status::TYPE_MISMATCH, [&] { one.module->parameter("w", DType::f32); }, {"'m.w'", "f64", "f32"});
  one.module->reshard();
}

} // namespace
} // namespace ostraka::fsdp::test
