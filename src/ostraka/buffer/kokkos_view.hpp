// SPDX-License-Identifier: Apache-2.0
// Typed, unmanaged Kokkos Views of buffers, and a table for kernels over many tensors. The only public header that
// needs Kokkos (target Ostraka::kokkos).
#pragma once

#include <ostraka/base/error.hpp>
#include <ostraka/base/float16.hpp>
#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/layout/boxes.hpp>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

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
  else if constexpr (std::is_same_v<Value, float16>)
    return DType::f16;
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
  expect(buffer.storage()->device() == runtime::Device::host, Status::NOT_SUPPORTED, operation,
         ": expected memory of the host, found memory on ", runtime::name(buffer.storage()->device()),
         "; make a View of data() in a memory space of your own");
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

/// This rank's whole local range. Valid until the storage is released. Throws TYPE_MISMATCH, and NOT_SUPPORTED for
/// memory of GPUs, also below.
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

/// This rank's elements of a tensor, as positions only.
struct TensorSlice {
  std::int32_t tensor;
  std::int64_t local_begin; ///< where they begin in the local range
  std::int64_t count;
  std::int64_t offset; ///< index of the first one in the tensor
};

/// The tensors of which this rank owns elements, in the order in which they lie in the local range: one kernel over
/// local_view and this table does the work of one kernel per tensor. Needs no storage, so it may be released.
inline Kokkos::View<TensorSlice*, Kokkos::HostSpace> layout_table(const DBuffer& buffer) {
  std::vector<TensorSlice> slices;
  for (int i = 0; i < buffer.layout()->num_tensors(); ++i) {
    const layout::Range tensor = buffer.layout()->tensor_range(i);
    const layout::Range own = layout::owned_elements(tensor, buffer.range());
    if (own.size() > 0)
      slices.push_back({i, tensor.begin + own.begin - buffer.range().begin, own.size(), own.begin});
  }
  std::sort(slices.begin(), slices.end(),
            [](const TensorSlice& a, const TensorSlice& b) { return a.local_begin < b.local_begin; });
  const Kokkos::View<TensorSlice*, Kokkos::HostSpace> table("ostraka::layout_table", slices.size());
  std::copy(slices.begin(), slices.end(), table.data());
  return table;
}

} // namespace ostraka::buffer
