// SPDX-License-Identifier: Apache-2.0
// Tensors of known bits on meshes of any of the ranks, folders that all ranks know, and files read with plain HDF5.
#pragma once

#include "support/any_memory.hpp"
#include "support/expect_error.hpp"
#include "support/world.hpp"
#include <ostraka/checkpoint/checkpoint.hpp>
#include <ostraka/layout/builders.hpp>
#include <ostraka/mesh/device_mesh.hpp>

#include <gtest/gtest.h>
#include <hdf5.h>
#include <mpi.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ostraka::checkpoint::test {

using namespace ostraka::test;
using buffer::DBuffer;
using buffer::MeshPtr;
using buffer::NamedState;
using layout::Shape;

/// A new folder, the same on all ranks, gone at the end. Collective.
class SharedFolder {
public:
  SharedFolder() {
    std::array<char, 512> path{};
    if (rank == 0) {
      const char* place = std::getenv("OSTRAKA_TEST_FOLDER");
      std::string pattern =
          (place != nullptr ? std::string(place) + "/" : testing::TempDir()) + "ostraka-checkpoint.XXXXXX";
      if (mkdtemp(pattern.data()) != nullptr)
        std::copy(pattern.begin(), pattern.end(), path.begin());
    }
    MPI_Bcast(path.data(), path.size(), MPI_CHAR, 0, MPI_COMM_WORLD);
    path_ = path.data();
  }
  ~SharedFolder() {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
      std::filesystem::remove_all(path_);
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  /// Names of all files, sorted. Local.
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      result.push_back(entry.path().filename().string());
    std::sort(result.begin(), result.end());
    return result;
  }

private:
  std::filesystem::path path_;
};

/// Meshes of the first ranks of the world, made once each; null on the others. Collective over the world.
class Meshes {
public:
  /// One axis; or two with `outer` lines.
  MeshPtr first(int count, int outer = 1) {
    auto& made = made_[{count, outer}];
    if (!made.is_made) {
      MPI_Comm_split(MPI_COMM_WORLD, rank < count ? 0 : MPI_UNDEFINED, rank, &made.group);
      if (made.group != MPI_COMM_NULL)
        made.mesh = outer == 1 ? mesh::DeviceMesh::create(made.group, {count})
                               : mesh::DeviceMesh::create(made.group, {outer, count / outer});
      made.is_made = true;
    }
    return made.mesh;
  }
  ~Meshes() {
    for (auto& [key, made] : made_) {
      made.mesh.reset();
      if (made.group != MPI_COMM_NULL)
        MPI_Comm_free(&made.group);
    }
  }

private:
  struct Made {
    bool is_made = false;
    MPI_Comm group = MPI_COMM_NULL;
    MeshPtr mesh;
  };
  std::map<std::pair<int, int>, Made> made_;
};

/// The value of an element: exact in every type, different for neighbours.
inline double value_of(int tensor, std::int64_t element, int salt = 0) {
  return static_cast<double>((tensor * 37 + element * 11 + salt * 5) % 251) - (salt % 2 == 0 ? 0 : 100);
}

inline std::vector<std::string> make_names(std::size_t count, const std::string& module = "net") {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i)
    names.push_back(module + ".t" + std::to_string(i));
  return names;
}

/// Sets this rank's elements; padding stays.
inline void fill(const DBuffer& buffer, int salt) {
  for (int i = 0; i < buffer.layout()->num_tensors(); ++i) {
    const auto own = buffer.tensor_range(i);
    std::vector<double> values;
    for (std::int64_t k = 0; k < own.count; ++k)
      values.push_back(buffer.dtype() == DType::u8 ? static_cast<double>(k % 251) : value_of(i, own.offset + k, salt));
    const std::vector<std::byte> bytes = encode(values, buffer.dtype());
    write_at(own.data, bytes.data(), static_cast<std::int64_t>(bytes.size()));
  }
}

/// Whether this rank has the elements that fill() gave; says which not. Padding must be zero.
inline void expect_filled(const DBuffer& buffer, int salt, const std::string& what) {
  std::vector<char> is_payload(static_cast<std::size_t>(buffer.numel()), 0);
  for (int i = 0; i < buffer.layout()->num_tensors(); ++i) {
    const auto own = buffer.tensor_range(i);
    const std::vector<double> found = elements_at(own.data, own.count, buffer.dtype());
    for (std::int64_t k = 0; k < own.count; ++k) {
      is_payload[buffer.layout()->tensor_range(i).begin + own.offset + k - buffer.range().begin] = 1;
      ASSERT_EQ(found[static_cast<std::size_t>(k)], value_of(i, own.offset + k, salt))
          << what << ": tensor " << i << ", element " << own.offset + k;
    }
  }
  const std::vector<double> all = elements_at(buffer.data(), buffer.numel(), buffer.dtype());
  for (std::size_t k = 0; k < all.size(); ++k)
    if (!is_payload[k]) {
      ASSERT_EQ(all[k], 0) << what << ": padding " << k;
    }
}

/// Weights with two states, all filled.
inline NamedState make_state(const DBuffer& weight, std::vector<std::string> names, int salt) {
  NamedState state;
  state.tensor_names = std::move(names);
  state.main_weight = weight;
  for (const char* name : {"exp_avg", "exp_avg_sq"})
    state.state[name] = DBuffer(weight.mesh(), weight.placements(), weight.layout(), weight.dtype());
  fill(weight, salt);
  fill(state.state["exp_avg"], salt + 1);
  fill(state.state["exp_avg_sq"], salt + 2);
  return state;
}

inline void expect_state(const NamedState& state, int salt, const std::string& what) {
  expect_filled(state.main_weight, salt, what);
  expect_filled(state.state.at("exp_avg"), salt + 1, what + " exp_avg");
  expect_filled(state.state.at("exp_avg_sq"), salt + 2, what + " exp_avg_sq");
}

inline void clear(const NamedState& state) {
  for (const DBuffer& buffer : {state.main_weight, state.state.at("exp_avg"), state.state.at("exp_avg_sq")}) {
    const std::vector<std::byte> zeros(static_cast<std::size_t>(buffer.bytes()));
    write_at(buffer.data(), zeros.data(), buffer.bytes());
  }
}

inline Content content_of(NamedState state) {
  Content content;
  content.states.push_back(std::move(state));
  return content;
}

/// One sharded state: tensors (7,3), (2,5), (7), of which up to four ranks have a part each.
inline NamedState make_plain_state(const MeshPtr& mesh, int salt, DType dtype = DType::f64) {
  const auto layout = std::make_shared<layout::GlobalLayout>(layout::build_flat({{7, 3}, {2, 5}, {7}}, mesh->size()));
  return make_state(DBuffer(mesh, layout::Placements(mesh->dims(), layout::shard()), layout, dtype), make_names(3),
                    salt);
}

/// Bytes of a dataset by plain HDF5, and its shape.
inline std::vector<std::byte> read_dataset(const std::string& path, const std::string& dataset,
                                           Shape* shape = nullptr) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t id = H5Dopen2(file, dataset.c_str(), H5P_DEFAULT);
  const hid_t space = H5Dget_space(id), type = H5Dget_type(id);
  std::vector<hsize_t> extents(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space)));
  H5Sget_simple_extent_dims(space, extents.data(), nullptr);
  if (shape != nullptr)
    *shape = Shape(extents.begin(), extents.end());
  std::vector<std::byte> bytes(H5Tget_size(type) * static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  EXPECT_GE(H5Dread(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), 0) << dataset;
  H5Tclose(type);
  H5Sclose(space);
  H5Dclose(id);
  H5Fclose(file);
  return bytes;
}

/// That a file has exactly the elements of fill(), by plain HDF5. Local.
inline void expect_dataset(const std::string& path, const std::string& dataset, const Shape& shape, DType dtype,
                           int tensor, int salt) {
  Shape found;
  const auto bytes = read_dataset(path, dataset, &found);
  EXPECT_EQ(found, shape) << dataset;
  const std::int64_t count = layout::numel(shape);
  ASSERT_EQ(static_cast<std::int64_t>(bytes.size()), count * width_of(dtype)) << dataset;
  for (std::int64_t k = 0; k < count; ++k)
    ASSERT_EQ(element(bytes.data(), k, dtype), value_of(tensor, k, salt)) << dataset << ", element " << k;
}

} // namespace ostraka::checkpoint::test
