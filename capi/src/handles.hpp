// SPDX-License-Identifier: Apache-2.0
// Handles are numbers in disguise, never addresses, and no number is used twice: a null, destroyed or wrong handle is
// recognised without touching memory.
#pragma once

#include <ostraka/base/error.hpp>

#include <cstdint>
#include <memory>
#include <typeindex>
#include <typeinfo>

namespace ostraka::capi {

/// Stores an object and returns its handle number.
std::uintptr_t store(std::shared_ptr<void> object, std::type_index type);
/// The object behind a handle; throws INVALID_HANDLE naming `kind`, the kind of object that was expected.
std::shared_ptr<void> look_up(std::uintptr_t handle, std::type_index type, const char* kind);
/// Forgets a handle and returns its object; throws as look_up.
std::shared_ptr<void> take(std::uintptr_t handle, std::type_index type, const char* kind);

/// What stands behind a handle type: `Object` and its name in messages. Specialised per handle in objects.hpp.
template <class Handle>
struct Behind;

template <class Handle>
using Object = typename Behind<Handle>::type;

template <class Handle>
std::uintptr_t number(Handle handle) {
  return reinterpret_cast<std::uintptr_t>(handle);
}

template <class Handle>
Handle make_handle(std::shared_ptr<Object<Handle>> object) {
  return reinterpret_cast<Handle>(store(std::move(object), typeid(Object<Handle>)));
}

template <class Handle>
std::shared_ptr<Object<Handle>> get(Handle handle) {
  return std::static_pointer_cast<Object<Handle>>(
      look_up(number(handle), typeid(Object<Handle>), Behind<Handle>::name));
}

/// Nulls the caller's handle and returns the object, or null when the handle was null.
template <class Handle>
std::shared_ptr<Object<Handle>> remove(Handle* handle) {
  expect(handle != nullptr, Status::INVALID_ARGUMENT, "the address of the ", Behind<Handle>::name, " handle is null");
  if (*handle == nullptr)
    return nullptr;
  auto object =
      std::static_pointer_cast<Object<Handle>>(take(number(*handle), typeid(Object<Handle>), Behind<Handle>::name));
  *handle = nullptr;
  return object;
}

} // namespace ostraka::capi
