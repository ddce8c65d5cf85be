// SPDX-License-Identifier: Apache-2.0
#include <ostraka/checkpoint/impl/file.hpp>
#include <ostraka/checkpoint/impl/hdf5_image.hpp>

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

namespace ostraka::checkpoint::impl {

namespace {

/// What HDF5 keeps in the properties.
struct Info {
  Hdf5Image* image;
};

struct OpenImage : H5FD_t {
  Hdf5Image* image = nullptr;
  haddr_t allocated = 0;
};

OpenImage& of(H5FD_t* file) { return *static_cast<OpenImage*>(file); }
const OpenImage& of(const H5FD_t* file) { return *static_cast<const OpenImage*>(file); }

// All without exceptions, as C calls them.
H5FD_t* open_image(const char*, unsigned flags, hid_t properties, haddr_t) noexcept {
  const auto* info = static_cast<const Info*>(H5Pget_driver_info(properties));
  auto* file = info != nullptr ? new (std::nothrow) OpenImage{} : nullptr;
  if (file == nullptr)
    return nullptr;
  file->image = info->image;
  if ((flags & H5F_ACC_TRUNC) != 0)
    file->image->clear();
  return file;
}
herr_t close_image(H5FD_t* file) noexcept {
  delete &of(file);
  return 0;
}
// As those of HDF5's own driver for files, which is to read the file.
herr_t query(const H5FD_t*, unsigned long* flags) noexcept {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}
haddr_t allocated(const H5FD_t* file, H5FD_mem_t) noexcept { return of(file).allocated; }
herr_t allocate(H5FD_t* file, H5FD_mem_t, haddr_t end) noexcept {
  of(file).allocated = end;
  return 0;
}
haddr_t end_of(const H5FD_t* file, H5FD_mem_t) noexcept { return static_cast<haddr_t>(of(file).image->bytes()); }
herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t offset, size_t bytes, void* to) noexcept {
  of(file).image->read(static_cast<std::int64_t>(offset), static_cast<std::byte*>(to),
                       static_cast<std::int64_t>(bytes));
  return 0;
}
herr_t write(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t offset, size_t bytes, const void* from) noexcept {
  try {
    of(file).image->write(static_cast<std::int64_t>(offset), static_cast<const std::byte*>(from),
                          static_cast<std::int64_t>(bytes));
    return 0;
  } catch (const std::bad_alloc&) {
    return -1;
  }
}
herr_t truncate(H5FD_t* file, hid_t, hbool_t) noexcept {
  of(file).image->resize(static_cast<std::int64_t>(of(file).allocated));
  return 0;
}

hid_t register_driver() {
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 13, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(H5_VFD_RESERVED + 344); // any that is not HDF5's own
#endif
  driver.name = "ostraka image";
  driver.maxaddr = static_cast<haddr_t>(INT64_MAX);
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(Info);
  driver.open = open_image;
  driver.close = close_image;
  driver.query = query;
  driver.get_eoa = allocated;
  driver.set_eoa = allocate;
  driver.get_eof = end_of;
  driver.read = read;
  driver.write = write;
  driver.truncate = truncate;
  constexpr H5FD_mem_t kinds[] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(kinds), std::end(kinds), driver.fl_map);
  return H5FDregister(&driver);
}

} // namespace

Hdf5Image::Hdf5Image() : driver_(register_driver()) {}

Hdf5Image::~Hdf5Image() {
  if (driver_ >= 0)
    H5FDunregister(driver_);
}

herr_t Hdf5Image::use_in(hid_t access_properties) {
  const Info info{this};
  return driver_ < 0 ? -1 : H5Pset_driver(access_properties, driver_, &info);
}

void Hdf5Image::clear() {
  pages_.clear();
  bytes_ = 0;
}

void Hdf5Image::read(std::int64_t offset, std::byte* to, std::int64_t bytes) const {
  for (std::int64_t end = offset + bytes; offset < end;) {
    const std::int64_t begin = offset % page_bytes, count = std::min(page_bytes - begin, end - offset);
    const auto page = pages_.find(offset / page_bytes);
    if (page != pages_.end())
      std::memcpy(to, page->second.data() + begin, static_cast<std::size_t>(count));
    else
      std::memset(to, 0, static_cast<std::size_t>(count));
    to += count;
    offset += count;
  }
}

void Hdf5Image::write(std::int64_t offset, const std::byte* from, std::int64_t bytes) {
  bytes_ = std::max(bytes_, offset + bytes);
  for (std::int64_t end = offset + bytes; offset < end;) {
    const std::int64_t begin = offset % page_bytes, count = std::min(page_bytes - begin, end - offset);
    std::memcpy(pages_[offset / page_bytes].data() + begin, from, static_cast<std::size_t>(count)); // new ones are 0
    from += count;
    offset += count;
  }
}

void Hdf5Image::write(const std::string& path) {
  static const std::string name = "the table of all tensors";
  std::vector<Piece> pieces;
  for (auto& [number, page] : pages_)
    if (const std::int64_t offset = number * page_bytes; offset < bytes_)
      pieces.push_back({page.data(), std::min(page_bytes, bytes_ - offset), offset, &name});
  File file(path, File::For::replacing);
  file.write(pieces);
  file.resize(bytes_);
  file.close();
}

} // namespace ostraka::checkpoint::impl
