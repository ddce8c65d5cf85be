// SPDX-License-Identifier: Apache-2.0
// How elements are stored.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/checkpoint/contents.hpp>
#include <ostraka/checkpoint/impl/hdf5.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

namespace ostraka::checkpoint::impl {

inline constexpr const char* text_dtype = "text";

/// UTF-8 of a fixed length of at least one byte, zeros behind the end.
inline Hid text_type(const Hdf5File& file, std::size_t bytes) {
  Hid type = file.own(H5Tcopy(H5T_C_S1), H5Tclose, "make a type");
  file.check(H5Tset_size(type, std::max<std::size_t>(bytes, 1)), "make a type");
  file.check(H5Tset_strpad(type, H5T_STR_NULLPAD), "make a type");
  file.check(H5Tset_cset(type, H5T_CSET_UTF8), "make a type");
  return type;
}

/// IEEE binary16, which HDF5 1.10 has no name for.
inline Hid float16_type(const Hdf5File& file) {
  Hid type = file.own(H5Tcopy(H5T_IEEE_F32LE), H5Tclose, "make a type");
  file.check(H5Tset_fields(type, 15, 10, 5, 0, 10), "make a type");
  file.check(H5Tset_size(type, 2), "make a type");
  file.check(H5Tset_ebias(type, 15), "make a type");
  return type;
}

inline Hid file_type(const Hdf5File& file, DType dtype) {
  const auto copy = [&](hid_t type) { return file.own(H5Tcopy(type), H5Tclose, "make a type"); };
  switch (dtype) {
  case DType::f64:
    return copy(H5T_IEEE_F64LE);
  case DType::f32:
    return copy(H5T_IEEE_F32LE);
  case DType::bf16:
    return copy(H5T_STD_U16LE);
  case DType::f16:
    return float16_type(file);
  case DType::i64:
    return copy(H5T_STD_I64LE);
  case DType::i32:
    return copy(H5T_STD_I32LE);
  case DType::u8:
    break;
  }
  return copy(H5T_STD_U8LE);
}

inline Hid file_type(const Hdf5File& file, const Tensor& tensor) {
  return tensor.is_text ? text_type(file, static_cast<std::size_t>(tensor.bytes())) : file_type(file, tensor.dtype);
}

/// As the attribute `dtype` says it.
inline const char* dtype_text(const Tensor& tensor) { return tensor.is_text ? text_dtype : name(tensor.dtype); }

inline std::optional<DType> dtype_named(const std::string& text) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8})
    if (text == name(dtype))
      return dtype;
  return std::nullopt;
}

} // namespace ostraka::checkpoint::impl
