// SPDX-License-Identifier: Apache-2.0
// What N ranks save M ranks load, bitwise, whatever the layouts, placements and types; and HDF5 reads in global order.
#include "checkpoint_test.hpp"
#include "faulty.hpp"
#include "support/rounds.hpp"

namespace ostraka::checkpoint::test {
namespace {

constexpr int sizes[] = {1, 2, 3, 4, 8};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all{{7, 3}, {2, 5}, {7}, {}, {5, 3, 2}, {1, 41}};
  return all;
}

buffer::LayoutPtr make_layout(layout::Policy policy, int segments, const std::vector<Shape>& tensors) {
  using layout::Policy;
  if (policy == Policy::tensor_atomic) {
    std::vector<int> owners;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      owners.push_back(static_cast<int>(i) % segments);
    return std::make_shared<layout::GlobalLayout>(layout::build_tensor_atomic(tensors, segments, owners));
  }
  const bool aligns = policy == Policy::planned || policy == Policy::flat || policy == Policy::automatic;
  return std::make_shared<layout::GlobalLayout>(
      layout::build(policy, tensors, segments, aligns ? layout::Alignment{8, 4} : layout::Alignment{}));
}

constexpr layout::Policy policies[] = {layout::Policy::reference,     layout::Policy::planned,
                                       layout::Policy::ragged,        layout::Policy::flat,
                                       layout::Policy::tensor_atomic, layout::Policy::automatic};

NamedState make(const MeshPtr& mesh, layout::Placements placements, layout::Policy policy, DType dtype, int salt) {
  return make_state(DBuffer(mesh, std::move(placements), make_layout(policy, mesh->size(), shapes()), dtype),
                    make_names(shapes().size()), salt);
}

void expect_file(const std::string& path, DType dtype, int salt) {
  for (std::size_t i = 0; i < shapes().size(); ++i) {
    const std::string name = "/net.t" + std::to_string(i);
    expect_dataset(path, "/main_weight" + name, shapes()[i], dtype, static_cast<int>(i), salt);
    expect_dataset(path, "/state/exp_avg" + name, shapes()[i], dtype, static_cast<int>(i), salt + 1);
    expect_dataset(path, "/state/exp_avg_sq" + name, shapes()[i], dtype, static_cast<int>(i), salt + 2);
  }
}

constexpr DType types[] = {DType::f64, DType::f32, DType::bf16};

class RoundTrip : public testing::Test {
protected:
  void save_on(int from, layout::Policy policy, DType dtype, int salt) {
    if (const MeshPtr mesh = meshes_.first(from)) {
      save(path_, content_of(make(mesh, {layout::shard()}, policy, dtype, salt)), {.sync = false});
      if (rank == 0)
        expect_file(path_, dtype, salt);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  void load_on(int to, layout::Policy policy, DType dtype, int salt) {
    if (const MeshPtr mesh = meshes_.first(to)) {
      Content content = content_of(make(mesh, {layout::shard()}, policy, dtype, 0));
      clear(content.states[0]);
      load(path_, content);
      expect_state(content.states[0], salt, "on " + std::to_string(to) + ", " + layout::name(policy));
    }
  }

  SharedFolder folder_;
  Meshes meshes_;
  std::string path_ = folder_.file("a.h5");
};

// Every number of ranks to every other one, every policy with every type.
TEST_F(RoundTrip, RanksPoliciesAndTypes) {
  int number = 0;
  for (const int from : sizes)
    for (const layout::Policy policy : policies) {
      const DType dtype = types[(number + number / 6) % 3];
      ++number;
      if (from > ranks)
        continue;
      SCOPED_TRACE(std::string(layout::name(policy)) + " of " + name(dtype) + " from " + std::to_string(from));
      save_on(from, policy, dtype, number);
      for (const int to : sizes)
        if (to <= ranks)
          load_on(to, policies[static_cast<std::size_t>(number + to) % std::size(policies)], dtype, number);
      MPI_Barrier(MPI_COMM_WORLD);
      if (HasFatalFailure())
        return;
    }
}

// All of their products, in the entry for them.
using Products = RoundTrip;
TEST_F(Products, RanksPoliciesAndTypes) {
  if (std::getenv("OSTRAKA_TEST_PRODUCTS") == nullptr || rounds(1) == 1)
    GTEST_SKIP() << "for scripts/test --full";
  int number = 0, trips = 0;
  for (const int from : sizes)
    for (const layout::Policy policy : policies)
      for (const DType dtype : types) {
        SCOPED_TRACE(std::string(layout::name(policy)) + " of " + name(dtype) + " from " + std::to_string(from));
        save_on(from, policy, dtype, ++number);
        for (const int to : sizes)
          for (const layout::Policy other : policies) {
            load_on(to, other, dtype, number);
            ++trips;
          }
        MPI_Barrier(MPI_COMM_WORLD);
        ASSERT_FALSE(HasFailure());
      }
  if (rank == 0)
    std::printf("%d round trips\n", trips);
}

// Every placement to every other one, on two axes: replicas write a part each, and all read theirs.
TEST(RoundTripOf, Placements) {
  const SharedFolder folder;
  Meshes meshes;
  const MeshPtr mesh = meshes.first(ranks, ranks % 2 == 0 ? 2 : 1);
  std::vector<layout::Placements> all{{layout::shard()}, {layout::replicate()}};
  if (mesh->dims() == 2)
    all = {{layout::replicate(), layout::replicate()},
           {layout::replicate(), layout::shard()},
           {layout::shard(), layout::shard()}};
  for (std::size_t a = 0; a < all.size(); ++a) {
    const std::string path = folder.file("p" + std::to_string(a));
    save(path, content_of(make(mesh, all[a], layout::Policy::flat, DType::f32, 3)), {.sync = false});
    if (rank == 0)
      expect_file(path, DType::f32, 3);
    for (const auto& to : all) {
      Content content = content_of(make(mesh, to, layout::Policy::ragged, DType::f32, 0));
      clear(content.states[0]);
      load(path, content);
      expect_state(content.states[0], 3, layout::to_string(to));
    }
  }
}

// The known-answer cases: shapes whose naive splits go wrong.
void round_trip_case(const std::vector<Shape>& tensors, int from, std::initializer_list<int> to,
                     const std::function<layout::GlobalLayout(int)>& build) {
  const SharedFolder folder;
  Meshes meshes;
  const std::string path = folder.file("case.h5");
  const auto make = [&](const MeshPtr& mesh, int salt) {
    const auto layout = std::make_shared<layout::GlobalLayout>(build(mesh->size()));
    return content_of(
        make_state(DBuffer(mesh, {layout::shard()}, layout, DType::f32), make_names(tensors.size()), salt));
  };
  from = std::min(from, ranks);
  if (const MeshPtr mesh = meshes.first(from)) {
    save(path, make(mesh, 6));
    for (std::size_t i = 0; rank == 0 && i < tensors.size(); ++i)
      expect_dataset(path, "/main_weight/net.t" + std::to_string(i), tensors[i], DType::f32, static_cast<int>(i), 6);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (const int count : to)
    if (const MeshPtr mesh = count <= ranks ? meshes.first(count) : nullptr) {
      Content content = make(mesh, 0);
      load(path, content);
      expect_state(content.states[0], 6, "on " + std::to_string(count));
    }
}

TEST(RoundTripOf, Case26) {
  const std::vector<Shape> tensors{{7, 3}, {2, 5}, {7}};
  round_trip_case(tensors, 4, {3, 1, 8, 2}, [&](int n) { return layout::build_reference(tensors, n); });
}

TEST(RoundTripOf, Case28) { // 10 elements, alignment 8: of four ranks two have only padding, and touch no file
  const std::vector<Shape> tensors{{10}};
  const SharedFolder folder;
  Meshes meshes;
  const std::string path = folder.file("case.h5");
  const MeshPtr mesh = meshes.first(ranks);
  const auto layout = std::make_shared<layout::GlobalLayout>(layout::build_flat(tensors, ranks, {1, 8}));
  const auto make = [&](int salt) {
    return content_of(make_state(DBuffer(mesh, {layout::shard()}, layout, DType::f32), make_names(1), salt));
  };
  const std::int64_t own = std::clamp<std::int64_t>(10 - layout->segment_range(rank).begin, 0, 10);
  {
    Faulty faulty;
    const Content content = make(6);
    AsyncSave::start(folder.file("other.h5"), content)->wait();
    save(path, content);
    EXPECT_EQ(faulty.bytes_written > 0, own > 0);
    EXPECT_EQ(faulty.calls > 0, own > 0 || rank == 0);
  }
  if (rank == 0)
    expect_dataset(path, "/main_weight/net.t0", tensors[0], DType::f32, 0, 6);
  Content content = make(0);
  clear(content.states[0]);
  {
    Faulty faulty;
    load(path, content);
    EXPECT_EQ(faulty.calls > 0, own > 0 || rank == 0);
    if (ranks == 4) {
      EXPECT_EQ(own > 0, rank < 2);
    }
  }
  expect_state(content.states[0], 6, "loaded"); // and padding is zero
}

TEST(RoundTripOf, Case27) { // 35 elements in 48
  const std::vector<Shape> tensors{{35}};
  round_trip_case(tensors, 2, {3, 5, 1}, [&](int n) { return layout::build_flat(tensors, n, {1, 24}); });
}

TEST(RoundTripOf, Case30) {
  const std::vector<Shape> tensors{{5, 4}, {2, 6}, {3}};
  round_trip_case(tensors, 2, {1, 3}, [&](int n) { return layout::build_reference(tensors, n); });
}

TEST(RoundTripOf, TensorsWithoutElements) {
  const std::vector<Shape> tensors{{0}, {3, 2}, {4, 0, 2}, {}};
  round_trip_case(tensors, 3, {1, 2, 3}, [&](int n) { return layout::build_ragged(tensors, n); });
}

// Beyond the blocks of the reader, which must not lose the order of the checksums.
TEST(RoundTripOf, LargeTensors) {
  const std::vector<Shape> tensors{{3, 100003}, {700001}, {5}};
  round_trip_case(tensors, 3, {1, 2, 4}, [&](int n) { return layout::build_flat(tensors, n); });
}

TEST(RoundTripOf, ManySmallTensors) { // several calls of 64 parts
  const std::vector<Shape> tensors(300, Shape{3});
  round_trip_case(tensors, 2, {1, 3}, [&](int n) { return layout::build_flat(tensors, n); });
}

// All types, bit patterns that are no numbers included, as fields; names with slashes.
TEST(RoundTripOf, FieldsOfAllTypes) {
  const SharedFolder folder;
  Meshes meshes;
  const MeshPtr mesh = meshes.first(ranks);
  const auto make = [&](bool is_filled) {
    Content content;
    for (const DType dtype : all_types) {
      const DBuffer values = DBuffer::empty(mesh, {layout::shard()}, {{11, 5}}, dtype);
      const auto own = values.tensor_range(0);
      std::vector<std::uint8_t> bytes(static_cast<std::size_t>(own.count * width_of(dtype)));
      for (std::size_t k = 0; is_filled && k < bytes.size(); ++k)
        bytes[k] = static_cast<std::uint8_t>((own.offset * width_of(dtype) + static_cast<std::int64_t>(k)) * 167 >> 2);
      write_at(own.data, bytes.data(), static_cast<std::int64_t>(bytes.size()));
      content.fields.push_back({{std::string("velocity/") + name(dtype)}, values});
    }
    return content;
  };
  const std::string path = folder.file("fields.h5");
  const Content saved = make(true);
  save(path, saved);
  Content loaded = make(false);
  load(path, loaded);
  for (std::size_t i = 0; i < saved.fields.size(); ++i)
    EXPECT_EQ(bytes_at(saved.fields[i].values.data(), saved.fields[i].values.bytes()),
              bytes_at(loaded.fields[i].values.data(), loaded.fields[i].values.bytes()))
        << saved.fields[i].names[0];
  if (rank == 0) {
    const auto bytes = read_dataset(path, "/field/velocity%2Fu8");
    for (std::size_t k = 0; k < bytes.size(); ++k)
      ASSERT_EQ(static_cast<std::uint8_t>(bytes[k]), static_cast<std::uint8_t>(k * 167 >> 2));
  }
}

} // namespace
} // namespace ostraka::checkpoint::test
