// SPDX-License-Identifier: Apache-2.0
// Saves and loads in runs of their own, for checkpoint_files.py. Salts give the values, as fill() says.
//   checkpoint_program save PATH SALT                        saves
//   checkpoint_program check PATH                            loads and verifies, prints "salt N"
//   checkpoint_program die PATH SALT CALL NUMBER VICTIM      rank VICTIM ends at its NUMBER-th CALL of the system
//   checkpoint_program die PATH SALT call NUMBER VICTIM      the same, of all calls on the files by any library
//   checkpoint_program hold PATH SALT FOLDER SHARE...        starts an asynchronous save that never ends, of which each
//                                                            rank writes its share (0 to 1) and then its process
//                                                            number to FOLDER/pid.RANK; prints "wrote RANK N of M"
//   checkpoint_program sample PATH                           all kinds of tensors and values, for h5py
#include "checkpoint_test.hpp"
#include "faulty.hpp"
#include "system_calls.hpp"
#include <ostraka/checkpoint/chunks.hpp>
#include <ostraka/runtime/lifetime.hpp>

#include <cstdio>
#include <fstream>

namespace ostraka::checkpoint::test {
namespace {

Content make(const MeshPtr& mesh, int salt) {
  Content content = content_of(make_plain_state(mesh, salt));
  content.user.set_i64("salt", salt);
  content.steps = salt;
  return content;
}

bool has_values(const DBuffer& buffer, int salt) {
  for (int i = 0; i < buffer.layout()->num_tensors(); ++i) {
    const auto own = buffer.tensor_range(i);
    for (std::int64_t k = 0; k < own.count; ++k)
      if (element(own.data, k, buffer.dtype()) != value_of(i, own.offset + k, salt))
        return false;
  }
  return true;
}

int check(const MeshPtr& mesh, const std::string& path) {
  Content content = make(mesh, 0);
  load(path, content);
  const int salt = static_cast<int>(content.user.i64("salt"));
  const NamedState& state = content.states[0];
  const bool is_right = has_values(state.main_weight, salt) && has_values(state.state.at("exp_avg"), salt + 1) &&
                        has_values(state.state.at("exp_avg_sq"), salt + 2) && content.steps == salt;
  if (rank == 0)
    std::printf("salt %d\n", salt);
  return is_right ? 0 : 1;
}

[[noreturn]] void hold(const MeshPtr& mesh, const std::string& path, int salt, const std::string& folder,
                       double share) {
  Faulty faulty;
  const Content content = make(mesh, salt);
  std::int64_t all = 0;
  for (const auto& [name, part] : chunks(content.states))
    all += 3 * 8 * part.written.size(); // weights and two states
  const auto bytes = static_cast<std::int64_t>(share * static_cast<double>(all));
  faulty.hold_after(bytes);
  const auto in_flight = AsyncSave::start(path, content);
  while (!faulty.is_at_its_end())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::printf("wrote %d %lld of %lld\n", rank, static_cast<long long>(bytes), static_cast<long long>(all));
  std::fflush(stdout);
  const std::string file = folder + "/pid." + std::to_string(rank);
  std::ofstream(file + ".draft") << getpid() << '\n';
  std::filesystem::rename(file + ".draft", file);
  for (;;)
    std::this_thread::sleep_for(std::chrono::seconds(1));
}

void sample(const MeshPtr& mesh, const std::string& path) {
  Content content = make(mesh, 3);
  content.states[0].other_names["net/tied"] = 1;
  for (const DType dtype : all_types) {
    const DBuffer values = DBuffer::empty(mesh, {layout::shard()}, {{5, 4}}, dtype);
    fill(values, 0);
    content.fields.push_back({{std::string("field.") + name(dtype)}, values});
  }
  const DBuffer scalar = DBuffer::empty(mesh, {layout::shard()}, {{}, {0, 3}}, DType::f64);
  fill(scalar, 3);
  content.fields.push_back({{"scalar", "empty"}, scalar});
  content.user.set_f64("time", 0.25);
  content.user.set_text("note", "größer");
  content.user.set_text("nothing", "");
  save(path, content);
}

int run(const std::vector<std::string>& arguments) {
  const MeshPtr mesh = mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks});
  const std::string &what = arguments.at(1), &path = arguments.at(2);
  if (what == "check")
    return check(mesh, path);
  if (what == "sample") {
    sample(mesh, path);
    return 0;
  }
  const int salt = std::stoi(arguments.at(3));
  if (what == "hold")
    hold(mesh, path, salt, arguments.at(4), std::stod(arguments.at(5 + static_cast<std::size_t>(rank))));
  Faulty faulty;
  SystemCalls calls(std::filesystem::path(path).parent_path().string() + "/");
  if (what == "die" && rank == std::stoi(arguments.at(6))) {
    if (arguments.at(4) == "call")
      calls.fail(std::stoi(arguments.at(5)), 0);
    else
      faulty.fail(arguments.at(4), std::stoi(arguments.at(5)), 0);
  }
  save(path, make(mesh, salt));
  return 0;
}

} // namespace
} // namespace ostraka::checkpoint::test

int main(int argc, char** argv) {
  using namespace ostraka::test;
  int provided = 0, status = 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  try {
    const ostraka::runtime::Session session;
    status = ostraka::checkpoint::test::run({argv, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
  }
  MPI_Finalize();
  return status;
}
