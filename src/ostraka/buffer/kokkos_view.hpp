// SPDX-License-Identifier: Apache-2.0
// Typed, unmanaged Kokkos Views of buffers. The only public header that needs Kokkos (target Ostraka::kokkos).
#pragma once

#include <ostraka/base/error.hpp>
#include <ostraka/base/float16.hpp>
#include <ostraka/buffer/dbuffer.hpp>

#include <Kokkos_Core.hpp>

#include <string>
#include <type_traits>

namespace ostraka::buffer {

/// The DType of a C++ type.
template <class T>
constexpr DType dtype_of() {
  using Value = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Value, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<Value, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<Value, bfloat16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<Value, std::int64_t>)
    return DType::i64;
  else if constexpr (std::is_same_v<Value, std::int32_t>)
    return DType::i32;
  else {
    static_assert(std::is_same_v<Value, std::uint8_t>, "no DType for this C++ type");
    return DType::u8;
  }
}

template <class Data>
using HostView = Kokkos::View<Data, Kokkos::LayoutRight, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

namespace detail {

template <class T>
void require_type(const DBuffer& buffer, const char* operation) {
  expect(dtype_of<T>() == buffer.dtype(), Status::TYPE_MISMATCH, operation, ": the buffer holds ", name(buffer.dtype()),
         ", asked for ", name(dtype_of<T>()));
}

template <class T, int Rank>
struct Pointer {
  using type = typename Pointer<T, Rank - 1>::type*;
};
template <class T>
struct Pointer<T, 0> {
  using type = T;
};

} // namespace detail

/// This rank's whole local range. Valid until the storage is released. Throws TYPE_MISMATCH, also below.
template <class T>
HostView<T*> local_view(const DBuffer& buffer) {
  detail::require_type<T>(buffer, "local_view");
  return HostView<T*>(static_cast<T*>(buffer.data()), static_cast<std::size_t>(buffer.numel()));
}

/// This rank's elements of tensor `index`, wherever it is cut.
template <class T>
HostView<T*> tensor_range(const DBuffer& buffer, int index) {
  detail::require_type<T>(buffer, "tensor_range");
  const TensorRange range = buffer.tensor_range(index);
  return HostView<T*>(static_cast<T*>(range.data), static_cast<std::size_t>(range.count));
}

/// This rank's rows of tensor `index`, which has `Rank` >= 1 dimensions (SHAPE_MISMATCH otherwise).
template <class T, int Rank>
HostView<typename detail::Pointer<T, Rank>::type> tensor_view(const DBuffer& buffer, int index) {
  detail::require_type<T>(buffer, "tensor_view");
  const int found = static_cast<int>(buffer.layout()->shape(index).size());
  expect(found == Rank, Status::SHAPE_MISMATCH, "tensor_view: tensor ", index, " has ", found,
         " dimensions, asked for ", Rank);
  const TensorView view = buffer.tensor_view(index);
  Kokkos::LayoutRight extents;
  for (int i = 0; i < Rank; ++i)
    extents.dimension[i] = static_cast<std::size_t>(view.shape[i]);
  return HostView<typename detail::Pointer<T, Rank>::type>(static_cast<T*>(view.data), extents);
}

} // namespace ostraka::buffer
