// SPDX-License-Identifier: Apache-2.0
// Training goes on behind a checkpoint as if nothing had happened, bit for bit, under every recipe and back end; and a
// checkpoint of one recipe and number of ranks fits every other one.
#include "checkpoint_test.hpp"
#include "faulty.hpp"
#include "support/rounds.hpp"
#include <ostraka/checkpoint/chunks.hpp>
#include <ostraka/checkpoint/contents.hpp>
#include <ostraka/fsdp/fsdp_context.hpp>
#include <ostraka/optim/optimizer.hpp>

#include <cmath>

namespace ostraka::checkpoint::test {
namespace {

using fsdp::FsdpModule;
using fsdp::Recipe;

constexpr Recipe recipes[] = {Recipe::no_shard, Recipe::zero_1, Recipe::zero_2,       Recipe::zero_3,
                              Recipe::hsdp,     Recipe::hfsdp,  Recipe::zero_1_zero_2};
constexpr DType storages[] = {DType::f64, DType::f32, DType::bf16};

bool is_hybrid(Recipe recipe) { return recipe > Recipe::zero_3; }

/// Two modules, one with a tied and a frozen parameter; gradients by a formula of step, rank, element and weight.
class Model {
public:
  Model(const MeshPtr& mesh, Recipe recipe, DType storage, int salt, bool has_momentum = true)
      : compute_(storage == DType::f64 ? DType::f64 : DType::f32) {
    fsdp::ContextConfig config;
    config.recipe = recipe;
    context = fsdp::FsdpContext::create(mesh, config);
    add("enc", {{"w", {7, 5}, storage, true}, {"b", {5}, storage, true}, {"scale", {3, 3}, storage, false}});
    modules[0]->tie_parameter("table", "w");
    add("dec", {{"w", {5, 3}, storage, true}, {"e", {0, 2}, storage, true}});
    int tensor = 0;
    for (std::size_t m = 0; m < modules.size(); ++m) {
      modules[m]->build();
      for (const auto& spec : specs_[m]) {
        std::vector<double> values;
        for (std::int64_t k = 0; k < layout::numel(spec.shape); ++k)
          values.push_back(value_of(tensor, k, salt) / 64);
        modules[m]->set_parameter(spec.name, values.data(), static_cast<std::int64_t>(values.size()), DType::f64);
        ++tensor;
      }
    }
    context->finalize();
    optimizer = has_momentum ? optim::make_adamw(context->named_states(), {})
                             : optim::make_sgd(context->named_states(), {0.1, 0.9, 0});
  }

  void step(int number) {
    for (FsdpModule* module : modules) {
      module->pre_forward();
      module->post_forward();
    }
    backward(number);
    optimizer->step();
    context->zero_grad();
  }
  void steps(int first, int end) {
    for (int k = first; k < end; ++k)
      step(k);
  }
  void backward(int number) {
    for (auto module = modules.rbegin(); module != modules.rend(); ++module) {
      (*module)->pre_backward();
      for (const auto& spec : specs_[static_cast<std::size_t>(modules.rend() - module - 1)])
        if (spec.trainable)
          write_gradient(**module, spec, number);
      (*module)->post_backward();
    }
    context->finish_backward();
  }

  Content content() {
    Content content;
    content.states = context->all_states();
    for (const NamedState& state : optimizer->named_states())
      content.states.push_back(state);
    content.steps = optimizer->steps();
    return content;
  }
  void load_from(const std::string& path) {
    Content content = this->content();
    load(path, content);
    optimizer->set_steps(*content.steps);
  }

  /// All this rank has: main weights, state, and the weights that modules hand out.
  std::map<std::string, std::vector<std::byte>> bits() {
    std::map<std::string, std::vector<std::byte>> result;
    const auto add = [&](const std::string& name, const void* data, std::int64_t bytes) {
      result[name] = bytes_at(data, bytes);
    };
    for (const NamedState& state : content().states) {
      const auto add_all = [&](const std::string& group, const DBuffer& buffer) {
        for (int i = 0; i < buffer.layout()->num_tensors(); ++i) {
          const auto own = buffer.tensor_range(i);
          add(group + "/" + state.tensor_names[i], own.data, own.count * size_of(buffer.dtype()));
        }
      };
      add_all("main", state.main_weight);
      for (const auto& [name, buffer] : state.state)
        add_all(name, buffer);
    }
    for (std::size_t m = 0; m < modules.size(); ++m) {
      modules[m]->unshard();
      for (const auto& spec : specs_[m])
        add("whole/" + modules[m]->name() + "." + spec.name, modules[m]->parameter(spec.name, compute_),
            layout::numel(spec.shape) * size_of(compute_));
      modules[m]->reshard();
    }
    return result;
  }
  /// Whole weights as handed out.
  std::map<std::string, std::vector<std::byte>> whole() {
    auto all = bits();
    std::erase_if(all, [](const auto& entry) { return entry.first.compare(0, 6, "whole/") != 0; });
    return all;
  }

  std::shared_ptr<fsdp::FsdpContext> context;
  std::vector<FsdpModule*> modules;
  std::unique_ptr<optim::Optimizer> optimizer;

private:
  void add(const std::string& name, std::vector<fsdp::ParameterSpec> specs) {
    modules.push_back(&context->add_module(name));
    for (const auto& spec : specs)
      modules.back()->add_parameter(spec);
    specs_.push_back(std::move(specs));
  }

  void write_gradient(FsdpModule& module, const fsdp::ParameterSpec& spec, int number) {
    const std::int64_t count = layout::numel(spec.shape);
    const auto gradient = module.gradient(spec.name, compute_);
    std::vector<double> values = elements_at(module.parameter(spec.name, compute_), count, compute_);
    for (std::size_t k = 0; k < values.size(); ++k)
      values[k] = std::sin(0.3 * static_cast<double>(k + 1) * (number + 1)) + 0.01 * rank + 0.1 * values[k];
    if (gradient.beta != 0) {
      const std::vector<double> before = elements_at(gradient.data, count, compute_);
      for (std::size_t k = 0; k < values.size(); ++k)
        values[k] += before[k];
    }
    const std::vector<std::byte> bytes = encode(values, compute_);
    write_at(gradient.data, bytes.data(), static_cast<std::int64_t>(bytes.size()));
  }

  DType compute_;
  std::vector<std::vector<fsdp::ParameterSpec>> specs_;
};

MeshPtr mesh_for(Meshes& meshes, Recipe recipe, int count) {
  return meshes.first(count, is_hybrid(recipe) && count % 2 == 0 ? 2 : 1);
}

// On some meshes of one axis a recipe for several is refused.
bool fits(Recipe recipe, int count) { return !is_hybrid(recipe) || count % 2 == 0; }

TEST(Training, ResumeEqualsUninterrupted) {
  const SharedFolder folder;
  Meshes meshes;
  for (const Recipe recipe : recipes)
    for (const DType storage : storages) {
      if (!fits(recipe, ranks))
        continue;
      const MeshPtr mesh = mesh_for(meshes, recipe, ranks);
      SCOPED_TRACE("recipe " + std::to_string(static_cast<int>(recipe)) + " of " + name(storage));
      const bool is_adamw = storage != DType::f32;
      Model uninterrupted(mesh, recipe, storage, 2, is_adamw), saved(mesh, recipe, storage, 2, is_adamw);
      uninterrupted.steps(0, 5);
      saved.steps(0, 3);
      const std::string path = folder.file("a.h5"), other = folder.file("b.h5");
      save(path, saved.content(), {.sync = false});
      const auto in_flight = AsyncSave::start(other, saved.content(), {.sync = false});
      saved.steps(3, 5); // while it is written
      EXPECT_EQ(saved.bits(), uninterrupted.bits());
      in_flight->wait();
      for (const std::string& from : {path, other}) {
        Model resumed(mesh, recipe, storage, 5, is_adamw);
        resumed.steps(0, 1); // what it knew does not matter
        resumed.load_from(from);
        EXPECT_EQ(resumed.optimizer->steps(), 3);
        resumed.steps(3, 5);
        EXPECT_EQ(resumed.bits(), uninterrupted.bits());
      }
    }
}

struct Arrangement {
  Recipe recipe;
  int ranks;
  std::string text() const {
    return "recipe " + std::to_string(static_cast<int>(recipe)) + " on " + std::to_string(ranks);
  }
};

std::vector<Arrangement> arrangements(std::vector<int> sizes) {
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  std::vector<Arrangement> all;
  for (const Recipe recipe : recipes)
    for (const int count : sizes)
      if (fits(recipe, count))
        all.push_back({recipe, count});
  return all;
}

class Rearranged : public testing::Test {
protected:
  void save_on(const Arrangement& from, DType storage) {
    expected_.clear();
    if (const MeshPtr mesh = mesh_for(meshes_, from.recipe, from.ranks)) {
      Model model(mesh, from.recipe, storage, 2);
      model.steps(0, 2);
      save(path_, model.content(), {.sync = false});
      expected_ = model.whole();
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  void load_on(const Arrangement& to, DType storage) {
    if (const MeshPtr mesh = mesh_for(meshes_, to.recipe, to.ranks)) {
      Model model(mesh, to.recipe, storage, 5);
      model.load_from(path_);
      const auto found = model.whole();
      if (!expected_.empty()) {
        EXPECT_EQ(found, expected_) << to.text();
      }
      const std::string again = folder_.file("again");
      save(again, model.content(), {.sync = false});
      if (rank == 0)
        expect_equal_files(again, to.text());
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  SharedFolder folder_;
  Meshes meshes_;

private:
  // State included: equal sums.
  void expect_equal_files(const std::string& again, const std::string& what) {
    const auto others = read_contents(again).tensors;
    for (const Tensor& tensor : read_contents(path_).tensors)
      EXPECT_TRUE(std::any_of(others.begin(), others.end(),
                              [&](const Tensor& other) {
                                return other.path() == tensor.path() && other.crc32c == tensor.crc32c &&
                                       other.shape == tensor.shape;
                              }))
          << tensor.path() << " " << what;
  }

  std::string path_ = folder_.file("a.h5");
  std::map<std::string, std::vector<std::byte>> expected_; ///< empty where this rank did not save
};

using TrainingElsewhere = Rearranged;
TEST_F(TrainingElsewhere, AnyRecipeAndRanks) {
  const auto all = arrangements({1, (ranks + 1) / 2, ranks});
  for (std::size_t a = 0; a < all.size(); ++a) {
    SCOPED_TRACE(all[a].text());
    save_on(all[a], DType::bf16);
    for (const std::size_t step : {1, 4, 9}) // some of the others
      load_on(all[(a + step) % all.size()], DType::bf16);
  }
}

// All of their products, in the entry for them.
using RecipeProducts = Rearranged;
TEST_F(RecipeProducts, RecipesRanksAndTypes) {
  if (std::getenv("OSTRAKA_TEST_PRODUCTS") == nullptr || rounds(1) == 1)
    GTEST_SKIP() << "for scripts/test --full";
  const auto all = arrangements({1, 2, 3, 4, 8});
  int trips = 0;
  for (const DType storage : storages)
    for (const Arrangement& from : all) {
      SCOPED_TRACE(std::string(name(storage)) + ", " + from.text());
      save_on(from, storage);
      for (const Arrangement& to : all) {
        load_on(to, storage);
        ++trips;
      }
      ASSERT_FALSE(HasFailure());
    }
  if (rank == 0)
    std::printf("%d round trips\n", trips);
}

TEST(Training, FrozenAndTiedParameters) {
  const SharedFolder folder;
  Meshes meshes;
  const MeshPtr mesh = meshes.first(ranks);
  Model model(mesh, Recipe::zero_3, DType::f64, 2);
  EXPECT_EQ(model.context->named_states().size(), 2u);
  EXPECT_EQ(model.context->all_states().size(), 3u);
  const auto found = chunks(model.context->all_states());
  EXPECT_EQ(found.size(), 6u);
  EXPECT_EQ(found.at("enc.table"), found.at("enc.w"));
  const std::string path = folder.file("a.h5");
  save(path, model.content());
  if (rank == 0) {
    for (const char* name : {"enc.w", "enc.table"}) {
      const auto bytes = read_dataset(path, std::string("/main_weight/") + name);
      for (std::int64_t k = 0; k < 35; ++k)
        EXPECT_EQ(element(bytes.data(), k, DType::f64), value_of(0, k, 2) / 64) << name;
    }
    const auto bytes = read_dataset(path, "/main_weight/enc.scale");
    for (std::int64_t k = 0; k < 9; ++k)
      EXPECT_EQ(element(bytes.data(), k, DType::f64), value_of(2, k, 2) / 64);
    EXPECT_EQ(read_dataset(path, "/state/exp_avg/enc.table").size(), 35u * 8);
    const Contents contents = read_contents(path);
    EXPECT_EQ(contents.steps, 0);
    EXPECT_NE(contents.layout_report.find("flat"), std::string::npos) << contents.layout_report;
    for (const Tensor& tensor : contents.tensors)
      EXPECT_TRUE(tensor.name != "enc.table" && (tensor.name != "enc.scale" || tensor.group == "main_weight"));
  }
}

TEST(Training, MainTypesAreConverted) {
  const SharedFolder folder;
  Meshes meshes;
  const MeshPtr mesh = meshes.first(ranks);
  Model model(mesh, Recipe::zero_2, DType::f64, 2), other(mesh, Recipe::zero_3, DType::f32, 5);
  model.steps(0, 3);
  const std::string path = folder.file("a.h5");
  save(path, model.content());
  other.load_from(path);
  const auto from = model.whole(), to = other.whole();
  for (const auto& [name, bytes] : from)
    for (std::size_t k = 0; k < bytes.size() / 8; ++k)
      EXPECT_EQ(element(to.at(name).data(), static_cast<std::int64_t>(k), DType::f32),
                static_cast<float>(element(bytes.data(), static_cast<std::int64_t>(k), DType::f64)))
          << name;
}

TEST(Training, NotWhileWeightsAreInUse) {
  const SharedFolder folder;
  Meshes meshes;
  const MeshPtr mesh = meshes.first(ranks);
  Model model(mesh, Recipe::zero_3, DType::f64, 2);
  model.step(0);
  const std::string path = folder.file("a.h5");
  const auto before = model.bits();
  model.modules[0]->pre_forward();
  save(path, model.content()); // reading is no harm
  Content content = model.content();
  expect_error(Status::INVALID_STATE, [&] { load(path, content); }, {"enc"});
  model.modules[0]->post_forward();
  model.modules[1]->pre_forward();
  model.modules[1]->post_forward();
  model.backward(1);
  load(path, content);
  EXPECT_EQ(model.bits(), before);
}

TEST(Training, NotBetweenAFusedUpdateAndItsStep) {
  const SharedFolder folder;
  Meshes meshes;
  const MeshPtr mesh = meshes.first(ranks);
  Model model(mesh, Recipe::zero_3, DType::f64, 2);
  model.optimizer->fuse_with_reduction();
  for (FsdpModule* module : model.modules) {
    module->pre_forward();
    module->post_forward();
  }
  model.backward(0);
  Content content = model.content();
  const std::string path = folder.file("a.h5");
  expect_error(Status::INVALID_STATE, [&] { save(path, content); }, {"step"});
  expect_error(Status::INVALID_STATE, [&] { load(path, content); }, {"step"});
  model.optimizer->step();
  save(path, model.content());
}

// What fails in the middle leaves weights that the next load repairs.
TEST(Training, GoesOnBehindAFailedLoad) {
  const SharedFolder folder;
  Meshes meshes;
  const MeshPtr mesh = meshes.first(ranks);
  Model uninterrupted(mesh, Recipe::zero_3, DType::f32, 2), model(mesh, Recipe::zero_3, DType::f32, 2);
  uninterrupted.steps(0, 4);
  model.steps(0, 2);
  const std::string path = folder.file("a.h5");
  save(path, model.content());
  {
    Faulty faulty;
    if (rank == ranks - 1)
      faulty.fail("preadv", 1, EIO);
    Content content = model.content();
    expect_error(Status::INPUT_OUTPUT, [&] { load(path, content); }, {path});
  }
  model.load_from(path);
  model.steps(2, 4);
  EXPECT_EQ(model.bits(), uninterrupted.bits());
}

} // namespace
} // namespace ostraka::checkpoint::test
