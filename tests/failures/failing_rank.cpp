// SPDX-License-Identifier: Apache-2.0
// A training run in which ranks stop or die in the middle of a step, and what the others get from it. failures.py
// starts it and ends what does not end by itself.
//   failing_rank FOLDER backward|update SIGNAL VICTIM    VICTIM: a rank, or -1 for all
// Each rank writes its process number to FOLDER/pid.RANK, victims FOLDER/ready.RANK before they fail, the others the
// error that they get to FOLDER/report.RANK.
#include "fsdp/network.hpp"
#include <ostraka/runtime/lifetime.hpp>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

namespace ostraka::fsdp::test {
namespace {

struct Case {
  std::filesystem::path folder;
  bool is_before_update;
  int signal;
  int victim;

  bool is_victim() const { return victim == -1 || victim == rank; }

  void write(const std::string& what, const std::string& text) const {
    const std::filesystem::path path = folder / (what + "." + std::to_string(rank)), draft = path.string() + ".draft";
    std::ofstream(draft) << text << '\n';
    std::filesystem::rename(draft, path); // complete when it is there
  }
};

[[noreturn]] void fail_here(const Case& what) {
  what.write("ready", "");
  if (what.victim == -1)
    MPI_Barrier(MPI_COMM_WORLD); // mpiexec ends the others when the first one is gone
  for (;;)                       // mpiexec wakes a stopped process before it ends it
    std::raise(what.signal);
}

void failing_step(Training<double>& training, const Case& what) {
  if (what.is_victim() && !what.is_before_update) {
    const int before_post_backward = 2 * training.num_modules() + 2;
    training.context().zero_grad();
    training.pass(0, before_post_backward);
    fail_here(what);
  }
  training.backward_all();
  if (what.is_victim())
    fail_here(what);
  training.optimizer().step();
}

std::string error_of_training(const buffer::MeshPtr& mesh, const Case& what) {
  Options options;
  options.net = mlp({16, 16, 16});
  options.optimizer.is_adamw = true;
  Training<double> training(mesh, options);
  training.step();
  training.step();
  try {
    failing_step(training, what);
    training.backward_all(); // sees what was missing in the update
  } catch (const Error& error) {
    return std::string(name(error.status())) + ": " + error.what();
  }
  return "no error";
}

// Others may need this process until they have seen the failure by themselves.
void wait_for_reports(const Case& what) {
  const auto has_reported = [&](int r) {
    return r == what.victim || std::filesystem::exists(what.folder / ("report." + std::to_string(r)));
  };
  for (int tenths = 0; tenths < 300; ++tenths) {
    int reports = 0;
    for (int r = 0; r < ranks; ++r)
      reports += has_reported(r) ? 1 : 0;
    if (reports == ranks)
      return;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

int run(const Case& what) {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  what.write("pid", std::to_string(getpid()));
  const runtime::Session session;
  std::string report;
  {
    const auto mesh = mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks});
    report = error_of_training(mesh, what);
  } // a context and a mesh that failed can be destroyed
  what.write("report", report);
  wait_for_reports(what);
  _exit(0); // MPI cannot be finalised without the victim
}

} // namespace
} // namespace ostraka::fsdp::test

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 5)
    return 2;
  return ostraka::fsdp::test::run({argv[1], std::string(argv[2]) == "update", std::atoi(argv[3]), std::atoi(argv[4])});
}
