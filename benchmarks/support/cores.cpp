// SPDX-License-Identifier: Apache-2.0
#include "cores.hpp"

#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

namespace ostraka::bench {

namespace {

struct alignas(128) Flag {
  std::atomic<long> value{0};
};

bool pin(pthread_t thread, int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(core), &one);
  return pthread_setaffinity_np(thread, sizeof one, &one) == 0;
}

// Several short tries, as other ranks may have the core in between.
double least_round_trip(Flag& here, Flag& there) {
  constexpr int tries = 20, trips = 50;
  double least = 0;
  long number = 0;
  for (int i = 0; i < tries; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (int k = 0; k < trips; ++k) {
      here.value.store(++number, std::memory_order_release);
      while (there.value.load(std::memory_order_acquire) != number) {
      }
    }
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    least = i == 0 ? spent.count() / trips : std::min(least, spent.count() / trips);
  }
  here.value.store(-1, std::memory_order_release);
  return least;
}

void answer(const Flag& here, Flag& there) {
  for (long seen = 0; seen >= 0;) {
    seen = here.value.load(std::memory_order_acquire);
    there.value.store(seen, std::memory_order_release);
  }
}

double measure_round_trip() {
  const int cores = num_cores();
  cpu_set_t before;
  if (cores < 2 || pthread_getaffinity_np(pthread_self(), sizeof before, &before) != 0)
    return 0;
  Flag here, there;
  const int own = sched_getcpu();
  std::thread peer([&] { answer(here, there); });
  double least = 0;
  if (pin(pthread_self(), own) && pin(peer.native_handle(), (own + 1) % cores))
    least = least_round_trip(here, there);
  else
    here.value.store(-1, std::memory_order_release);
  peer.join();
  pthread_setaffinity_np(pthread_self(), sizeof before, &before);
  return least;
}

} // namespace

int num_cores() { return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)); }

double line_round_trip_ns() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  double ns = rank == 0 ? measure_round_trip() : 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(&ns, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD, &request);
  for (int is_over = 0; is_over == 0;) { // without taking the core from rank 0
    MPI_Test(&request, &is_over, MPI_STATUS_IGNORE);
    if (is_over == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return ns;
}

Operation make_two_barriers() {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const auto window = std::shared_ptr<MPI_Win>(new MPI_Win(MPI_WIN_NULL), [](MPI_Win* made) {
    MPI_Win_free(made);
    delete made;
  });
  void* memory = nullptr;
  const auto bytes = static_cast<MPI_Aint>(sizeof(Flag)) * (2 * ranks + 1);
  MPI_Win_allocate_shared(rank == 0 ? bytes : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, window.get());
  MPI_Aint found = 0;
  int unit = 0;
  MPI_Win_shared_query(*window, 0, &found, &unit, &memory);
  auto space = static_cast<std::size_t>(found);
  auto* flags = static_cast<Flag*>(std::align(alignof(Flag), sizeof(Flag), memory, space));
  for (int barrier = 0; barrier < 2; ++barrier)
    flags[2 * rank + barrier].value.store(0);
  MPI_Barrier(MPI_COMM_WORLD);
  return [=, number = std::make_shared<long>(0), keeper = window] {
    ++*number;
    for (int barrier = 0; barrier < 2; ++barrier) {
      flags[2 * rank + barrier].value.store(*number, std::memory_order_release);
      for (int peer = 0; peer < ranks; ++peer)
        while (flags[2 * peer + barrier].value.load(std::memory_order_acquire) < *number) {
        }
    }
  };
}

} // namespace ostraka::bench
