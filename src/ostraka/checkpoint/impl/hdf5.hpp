// SPDX-License-Identifier: Apache-2.0
// HDF5's C interface with owners for its identifiers and errors as exceptions. Only format.cpp, hdf5_image.cpp
// and read_contents.cpp use it.
#pragma once

#include <ostraka/base/error.hpp>

#include <hdf5.h>

#include <string>
#include <utility>

namespace ostraka::checkpoint::impl {

/// What HDF5 says about the last failure: its innermost message.
inline std::string hdf5_message() {
  std::string text;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_DOWNWARD,
      [](unsigned, const H5E_error2_t* error, void* into) -> herr_t {
        *static_cast<std::string*>(into) = error->desc;
        return 0;
      },
      &text);
  return text;
}

/// Owns an identifier.
class Hid {
public:
  using Close = herr_t (*)(hid_t);
  Hid(hid_t id, Close close) : id_(id), close_(close) {}
  Hid(Hid&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Hid& operator=(Hid&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Hid() {
    if (id_ >= 0)
      close_(id_);
  }
  operator hid_t() const { return id_; } // NOLINT: stands for it in calls

  /// Closes it now; negative when that fails, and then it is gone as well.
  herr_t close() { return close_(std::exchange(id_, H5I_INVALID_HID)); }

private:
  hid_t id_;
  Close close_;
};

/// While it lives HDF5 prints no errors; the caller's setting returns.
class Quiet {
public:
  Quiet() {
    H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~Quiet() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

/// A file, and the name that stands in its errors.
class Hdf5File {
public:
  explicit Hdf5File(std::string path) : path_(std::move(path)) {}

  [[noreturn]] void fail_with(Status status, const std::string& what) const {
    fail(status, "checkpoint '", path_, "': ", what);
  }
  [[noreturn]] void fail_in_hdf5(const std::string& what) const {
    fail_with(Status::INPUT_OUTPUT, "cannot " + what + ": HDF5: " + hdf5_message());
  }
  /// Results of HDF5 that are negative for failures.
  template <class Result>
  Result check(Result result, const std::string& what) const {
    if (result < 0)
      fail_in_hdf5(what);
    return result;
  }
  Hid own(hid_t id, Hid::Close close, const std::string& what) const { return {check(id, what), close}; }

  const std::string& path() const { return path_; }

private:
  Quiet quiet_;
  std::string path_;
};

} // namespace ostraka::checkpoint::impl
