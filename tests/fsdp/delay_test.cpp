// SPDX-License-Identifier: Apache-2.0
// Slow ranks: one rank sleeps at one place of every module, while the others run ahead as far as they can. Every weight
// that is handed out is compared with a serial reference; all values are small integers, so equality is exact.
#include "network.hpp"
#include "support/rounds.hpp"

#include <chrono>
#include <thread>

namespace ostraka::fsdp::test {
namespace {

constexpr int num_modules = 3, elements_of_a_module = 37;

enum class Place {
  before_forward,
  reading,
  before_backward,
  before_gradient,
  before_reduction,
  before_finish,
  before_update,
  before_load
};
constexpr int num_places = 8;

enum class Script {
  training,
  evaluation_after_update,
  evaluation_before_update,
  loads_between_evaluations,
  no_updates
};
constexpr int num_scripts = 5;
constexpr Script all_scripts[num_scripts] = {Script::training, Script::evaluation_after_update,
                                             Script::evaluation_before_update, Script::loads_between_evaluations,
                                             Script::no_updates};

struct Case {
  Recipe recipe = Recipe::zero_3;
  DType storage = DType::f64;
  int micro_batches = 1;
  int gradient_slots = 2;
  int frozen = -1; ///< module
  Place place = Place::reading;
  int slow_rank = 0;

  std::string text() const {
    return std::string(test::text(recipe)) + ", " + name(storage) + ", " + std::to_string(micro_batches) +
           " micro-batches, " + std::to_string(gradient_slots) + " slots, frozen " + std::to_string(frozen) +
           ", place " + std::to_string(static_cast<int>(place)) + ", slow rank " + std::to_string(slow_rank);
  }
};

class SlowTraining {
public:
  SlowTraining(const buffer::MeshPtr& mesh, const Case& which) : case_(which) {
    ContextConfig config = make_config(which.recipe, layout::ReduceOp::sum);
    config.gradient_slots = which.gradient_slots;
    context_ = FsdpContext::create(mesh, config);
    for (int m = 0; m < num_modules; ++m) {
      FsdpModule& module = context_->add_module("m" + std::to_string(m));
      module.add_parameter({"w", {elements_of_a_module}, which.storage, m != which.frozen});
      module.build();
      weights_.push_back(whole(10 * m));
      module.set_parameter("w", weights_[m].data(), elements_of_a_module, DType::f64);
      modules_.push_back(&module);
    }
    context_->finalize();
    optimizer_ = optim::make_sgd(context_->named_states(), {1, 0, 0});
  }

  void run(Script script) {
    for (int round = 0; round < 2; ++round) {
      step(script != Script::no_updates, script == Script::evaluation_before_update);
      if (script == Script::evaluation_after_update)
        evaluate();
      if (script == Script::loads_between_evaluations)
        for (int k = 0; k < 2; ++k) {
          load(round + k);
          evaluate();
          peek();
        }
    }
    evaluate();
  }

private:
  static std::vector<double> whole(int base) {
    std::vector<double> values(elements_of_a_module);
    for (int i = 0; i < elements_of_a_module; ++i)
      values[i] = (base + i) % 61;
    return values;
  }

  void at(Place place) const {
    if (place == case_.place && rank == case_.slow_rank)
      std::this_thread::sleep_for(std::chrono::microseconds(1500));
  }

  void expect_weights(int m) const {
    const DType compute = case_.storage == DType::f64 ? DType::f64 : DType::f32;
    const void* found = modules_[m]->parameter("w", compute);
    for (const bool late : {false, true}) {
      for (int i = 0; i < elements_of_a_module; ++i)
        ASSERT_EQ(element(found, i, compute), weights_[m][i])
            << "module " << m << ", element " << i << (late ? ", late" : "");
      at(Place::reading);
    }
  }

  void forward() {
    for (int m = 0; m < num_modules; ++m) {
      at(Place::before_forward);
      modules_[m]->pre_forward();
      expect_weights(m);
      modules_[m]->post_forward();
    }
  }

  void backward() {
    for (int m = num_modules - 1; m >= 0; --m) {
      at(Place::before_backward);
      modules_[m]->pre_backward();
      expect_weights(m);
      if (m != case_.frozen)
        add_gradient(m);
      at(Place::before_reduction);
      modules_[m]->post_backward();
    }
    at(Place::before_finish);
    context_->finish_backward();
  }

  // Rank r of n contributes r + 1 - (n + 1) / 2 and a number of the element: sums are small integers.
  void add_gradient(int m) {
    const DType compute = case_.storage == DType::f64 ? DType::f64 : DType::f32;
    const FsdpModule::Gradient gradient = modules_[m]->gradient("w", compute);
    for (int i = 0; i < elements_of_a_module; ++i) {
      if (i == elements_of_a_module / 2)
        at(Place::before_gradient);
      const double earlier = gradient.beta == 0 ? 0 : element(gradient.data, i, compute);
      set_element(gradient.data, i, compute, earlier + (rank + i + m) % 3 - 1);
    }
  }

  void step(bool updates, bool evaluates_before) {
    context_->zero_grad();
    for (int k = 0; k < case_.micro_batches; ++k) {
      context_->set_last_microbatch(k == case_.micro_batches - 1);
      forward();
      backward();
    }
    if (evaluates_before)
      evaluate();
    if (!updates)
      return;
    at(Place::before_update);
    optimizer_->step();
    for (int m = 0; m < num_modules; ++m)
      for (int i = 0; i < elements_of_a_module && m != case_.frozen; ++i)
        for (int k = 0; k < ranks; ++k)
          weights_[m][i] -= case_.micro_batches * ((k + i + m) % 3 - 1);
  }

  void evaluate() {
    context_->begin_inference();
    for (int pass = 0; pass <= rank % 2; ++pass)
      forward();
    context_->end_inference();
  }

  // Whole weights of one module after the other, without an inference scope.
  void peek() {
    for (int m = 0; m < num_modules; ++m) {
      modules_[m]->unshard();
      expect_weights(m);
      modules_[m]->reshard();
    }
  }

  void load(int round) {
    for (int m = 0; m < num_modules; ++m) {
      weights_[m] = whole(10 * m + 7 * round + 3);
      at(Place::before_load);
      modules_[m]->set_parameter("w", weights_[m].data(), elements_of_a_module, DType::f64);
    }
  }

  Case case_;
  std::shared_ptr<FsdpContext> context_;
  std::vector<FsdpModule*> modules_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<std::vector<double>> weights_;
};

void run(const buffer::MeshPtr& mesh, const Case& which, Script script) {
  SCOPED_TRACE(which.text() + ", script " + std::to_string(static_cast<int>(script)));
  SlowTraining(mesh, which).run(script);
}

TEST(Delay, EveryPlaceOnEveryRank) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (int place = 0; place < num_places; ++place)
      for (int slow = 0; slow < ranks; ++slow) {
        Case which;
        which.recipe = recipe;
        which.place = static_cast<Place>(place);
        which.slow_rank = slow;
        for (const Script script : all_scripts)
          run(mesh, which, script);
      }
}

TEST(Delay, EveryPlaceOnAPlane) {
  const auto plane = make_plane();
  int number = 0;
  for (const Recipe recipe : hybrid_recipes)
    for (int place = 0; place < num_places; ++place)
      for (int slow = 0; slow < ranks; ++slow, ++number) { // scripts, types and micro-batches in turn
        Case which;
        which.recipe = recipe;
        which.place = static_cast<Place>(place);
        which.slow_rank = slow;
        which.micro_batches = 1 + number % 2;
        which.storage = number % 3 == 0 ? DType::bf16 : DType::f64;
        for (int k = 0; k < rounds(1) && k < num_scripts; ++k)
          run(plane, which, all_scripts[(number + k) % num_scripts]);
      }
}

TEST(Delay, TypesMicroBatchesSlotsAndFrozenModules) {
  const auto mesh = make_mesh();
  int number = 0;
  for (const Recipe recipe : all_recipes)
    for (const DType storage : {DType::f32, DType::bf16})
      for (const int micro_batches : {1, 3})
        for (const int slots : {1, 2, num_modules})
          for (const int frozen : {-1, 0, 1}) {
            Case which{recipe, storage, micro_batches, slots, frozen, Place::reading, 0};
            which.place = static_cast<Place>(number % num_places); // every place with everything, in turn
            which.slow_rank = number / num_places % ranks;
            for (int k = 0; k < rounds(1) && k < num_scripts; ++k)
              run(mesh, which, all_scripts[(number + k) % num_scripts]);
            ++number;
          }
}

// w = 1, g = 1, learning rate 1: an update by two writers would give -1.
TEST(Delay, OneWriterUpdatesEachByte) {
  for_all_recipes([](const buffer::MeshPtr& mesh, Recipe recipe) {
    const auto context = FsdpContext::create(mesh, make_config(recipe));
    FsdpModule& module = context->add_module("m");
    module.add_parameter({"w", {1000}, DType::f32, true});
    module.build();
    const std::vector<double> ones(1000, 1);
    module.set_parameter("w", ones.data(), 1000, DType::f64);
    context->finalize();
    const auto optimizer = optim::make_sgd(context->named_states(), {1, 0, 0});
    module.pre_forward();
    module.post_forward();
    module.pre_backward();
    std::fill_n(static_cast<float*>(module.gradient("w", DType::f32).data), 1000, 1.0F);
    module.post_backward();
    context->finish_backward();
    optimizer->step();
    expect_close(whole_parameter(module, "w"), std::vector<double>(1000, 0), 0, text(recipe));
  });
}

} // namespace
} // namespace ostraka::fsdp::test
