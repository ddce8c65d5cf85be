// SPDX-License-Identifier: Apache-2.0
#include "handles.hpp"

#include <mutex>
#include <unordered_map>

namespace ostraka::capi {

namespace {

struct Entry {
  std::shared_ptr<void> object;
  std::type_index type;
};

struct Table {
  std::mutex mutex;
  std::unordered_map<std::uintptr_t, Entry> entries;
  std::uintptr_t last = 0;
};

Table& table() {
  static Table instance;
  return instance;
}

Entry& find(Table& all, std::uintptr_t handle, std::type_index type, const char* kind) {
  expect(handle != 0, Status::INVALID_HANDLE, "the ", kind, " handle is null: it was not created yet, or destroyed");
  const auto found = all.entries.find(handle);
  expect(found != all.entries.end(), Status::INVALID_HANDLE, "the ", kind,
         " handle was destroyed or was never created");
  expect(found->second.type == type, Status::INVALID_HANDLE, "expected a ", kind, " handle, found one of another kind");
  return found->second;
}

} // namespace

std::uintptr_t store(std::shared_ptr<void> object, std::type_index type) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  all.entries.emplace(++all.last, Entry{std::move(object), type});
  return all.last;
}

std::shared_ptr<void> look_up(std::uintptr_t handle, std::type_index type, const char* kind) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  return find(all, handle, type, kind).object;
}

std::shared_ptr<void> take(std::uintptr_t handle, std::type_index type, const char* kind) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  std::shared_ptr<void> object = std::move(find(all, handle, type, kind).object);
  all.entries.erase(handle);
  return object;
}

} // namespace ostraka::capi
