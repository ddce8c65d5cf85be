// SPDX-License-Identifier: Apache-2.0
#include <ostraka/checkpoint/impl/format.hpp>
#include <ostraka/checkpoint/impl/hdf5_types.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace ostraka::checkpoint {

namespace impl {
namespace {

constexpr std::string_view signature = "\211HDF\r\n\032\n"; // of HDF5 files

class ContentsReader {
public:
  explicit ContentsReader(const std::string& path) : file_(path), size_(checked_size()), id_(open()) {}

  Contents read() {
    check_format();
    contents_.library_version = text_attribute(id_, "library_version");
    read_weights();
    read_states();
    for (const char* name : {field_group, user_group})
      if (exists(id_, name))
        read_group(open_group(id_, name), name);
    return std::move(contents_);
  }

private:
  // Says what is wrong in the words of the system, which HDF5's are not.
  std::int64_t checked_size() const {
    const int descriptor = ::open(file_.path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); // a pipe does not wait
    struct stat found {};
    const bool is_there = descriptor >= 0 && fstat(descriptor, &found) == 0;
    const bool is_regular = is_there && S_ISREG(found.st_mode);
    std::array<char, signature.size()> begin{};
    const ssize_t count = is_regular ? ::pread(descriptor, begin.data(), begin.size(), 0) : 0;
    const int error = errno;
    if (descriptor >= 0)
      ::close(descriptor);
    if (!is_there)
      file_.fail_with(Status::INPUT_OUTPUT, std::string("cannot open the file: ") + std::strerror(error));
    if (!is_regular)
      file_.fail_with(Status::INPUT_OUTPUT, "expected a file, found something else");
    if (count < 0)
      file_.fail_with(Status::INPUT_OUTPUT, std::string("cannot read the file: ") + std::strerror(error));
    if (std::string_view(begin.data(), static_cast<std::size_t>(count)) != signature)
      file_.fail_with(Status::INPUT_OUTPUT, "is no HDF5 file, or its begin is damaged");
    return found.st_size;
  }

  Hid open() const {
    const Hid access = file_.own(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "set properties");
    file_.check(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG), "set properties");
    return file_.own(H5Fopen(file_.path().c_str(), H5F_ACC_RDONLY, access), H5Fclose, "open the file");
  }

  void check_format() {
    if (!has(id_, "format") || text_attribute(id_, "format") != format_name)
      file_.fail_with(Status::INVALID_ARGUMENT,
                      std::string("is no checkpoint: expected the attribute format = '") + format_name + "'");
    contents_.format_version = number_attribute(id_, "format_version");
    if (contents_.format_version < 1 || contents_.format_version > format_version)
      file_.fail_with(Status::INVALID_ARGUMENT, "has format version " + std::to_string(contents_.format_version) +
                                                    "; this library reads up to " + std::to_string(format_version));
  }

  void read_weights() {
    const Hid weights = open_group(id_, main_weight_group);
    if (has(weights, "layout_report"))
      contents_.layout_report = text_attribute(weights, "layout_report");
    read_group(weights, main_weight_group);
  }

  void read_states() {
    if (!exists(id_, state_group))
      return;
    const Hid states = open_group(id_, state_group);
    if (has(states, "steps"))
      contents_.steps = number_attribute(states, "steps");
    for (const std::string& link : links(states))
      read_group(open_group(states, link), std::string(state_group) + "/" + unescape(link));
  }

  void read_group(const Hid& group, const std::string& name) {
    for (const std::string& link : links(group)) {
      const std::string what = "read '" + name + "/" + unescape(link) + "'";
      const Hid id = file_.own(H5Dopen2(group, link.c_str(), H5P_DEFAULT), H5Dclose, what);
      Tensor tensor = read_tensor(id, name, unescape(link));
      if (tensor.name == unescape(link)) // else another name of a tensor
        contents_.tensors.push_back(std::move(tensor));
      else
        other_names_.emplace_back(tensor.path(), unescape(link));
    }
    for (const auto& [path, other] : other_names_)
      add_other_name(path, other, name);
    other_names_.clear();
  }

  void add_other_name(const std::string& path, const std::string& other, const std::string& group) {
    const auto owner = std::find_if(contents_.tensors.begin(), contents_.tensors.end(),
                                    [&](const Tensor& tensor) { return tensor.path() == path; });
    if (owner == contents_.tensors.end())
      file_.fail_with(Status::INVALID_ARGUMENT,
                      "'" + group + "/" + other + "': its attribute 'name' says '" + path + "', which is not there");
    owner->other_names.push_back(other);
  }

  Tensor read_tensor(const Hid& id, const std::string& group, const std::string& link_name) const {
    Tensor tensor;
    tensor.group = group;
    tensor.name = has(id, "name") ? text_attribute(id, "name") : link_name;
    const auto damaged = [&](const std::string& what) {
      file_.fail_with(Status::INVALID_ARGUMENT, "'" + tensor.path() + "': " + what);
    };
    for (const char* attribute : {"dtype", "crc32c"})
      if (!has(id, attribute))
        damaged(std::string("has no attribute '") + attribute + "'");
    const std::string dtype = text_attribute(id, "dtype");
    tensor.is_text = dtype == text_dtype;
    if (!tensor.is_text && !dtype_named(dtype))
      damaged("has the unknown type '" + dtype + "'");
    tensor.dtype = tensor.is_text ? DType::u8 : *dtype_named(dtype);
    tensor.crc32c = static_cast<std::uint32_t>(number_attribute(id, "crc32c"));
    const Hid stored = file_.own(H5Dget_type(id), H5Tclose, "read a type");
    if (tensor.is_text)
      tensor.shape = {text_length(id, stored)};
    else if (H5Tequal(stored, file_type(file_, tensor.dtype)) <= 0)
      damaged("is stored in another type than its attribute dtype says, " + dtype);
    else
      tensor.shape = shape_of(id);
    place(id, tensor);
    return tensor;
  }

  // One byte stands for an empty text, so the type does not tell.
  std::int64_t text_length(const Hid& id, const Hid& stored) const {
    const auto room = static_cast<std::int64_t>(H5Tget_size(stored));
    const std::int64_t length = has(id, "length") ? number_attribute(id, "length") : room;
    if (H5Tget_class(stored) != H5T_STRING || H5Tis_variable_str(stored) > 0 || length < 0 || length > room)
      file_.fail_with(Status::INVALID_ARGUMENT, "a text is not stored as its attributes say");
    return length;
  }

  layout::Shape shape_of(const Hid& id) const {
    const Hid space = file_.own(H5Dget_space(id), H5Sclose, "read a space");
    std::vector<hsize_t> extents(
        static_cast<std::size_t>(file_.check(H5Sget_simple_extent_ndims(space), "read a space")));
    file_.check(H5Sget_simple_extent_dims(space, extents.data(), nullptr), "read a space");
    return {extents.begin(), extents.end()};
  }

  void place(const Hid& id, Tensor& tensor) const {
    const Hid properties = file_.own(H5Dget_create_plist(id), H5Pclose, "read properties");
    const haddr_t offset = H5Dget_offset(id);
    const std::int64_t bytes = tensor.bytes();
    if (bytes == 0)
      return;
    if (H5Pget_layout(properties) != H5D_CONTIGUOUS || offset == HADDR_UNDEF)
      file_.fail_with(Status::INVALID_ARGUMENT, "'" + tensor.path() + "' is not stored in one piece");
    tensor.offset = static_cast<std::int64_t>(offset);
    if (tensor.offset > size_ - bytes)
      file_.fail_with(Status::INPUT_OUTPUT, "is truncated: '" + tensor.path() + "' ends at byte " +
                                                std::to_string(tensor.offset + bytes) + ", the file at " +
                                                std::to_string(size_));
  }

  // What cannot be read is not absent.
  bool exists(hid_t parent, const char* name) const {
    return file_.check(H5Lexists(parent, name, H5P_DEFAULT), std::string("look for '") + name + "'") > 0;
  }
  bool has(hid_t object, const char* attribute) const {
    return file_.check(H5Aexists(object, attribute), std::string("look for the attribute '") + attribute + "'") > 0;
  }
  Hid open_group(hid_t parent, const std::string& link) const {
    return file_.own(H5Gopen2(parent, link.c_str(), H5P_DEFAULT), H5Gclose, "open the group '" + link + "'");
  }

  // In the order in which they were made.
  std::vector<std::string> links(const Hid& group) const {
    H5G_info_t info{};
    file_.check(H5Gget_info(group, &info), "list a group");
    const Hid properties = file_.own(H5Gget_create_plist(group), H5Pclose, "list a group");
    unsigned order = 0;
    file_.check(H5Pget_link_creation_order(properties, &order), "list a group");
    const H5_index_t index = (order & H5P_CRT_ORDER_TRACKED) != 0 ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
    std::vector<std::string> names;
    for (hsize_t i = 0; i < info.nlinks; ++i) {
      const auto read = [&](char* into, std::size_t bytes) {
        return file_.check(H5Lget_name_by_idx(group, ".", index, H5_ITER_INC, i, into, bytes, H5P_DEFAULT),
                           "list a group");
      };
      std::string name(static_cast<std::size_t>(read(nullptr, 0)), '\0');
      read(name.data(), name.size() + 1);
      names.push_back(std::move(name));
    }
    return names;
  }

  std::int64_t number_attribute(hid_t object, const char* name) const {
    const std::string what = std::string("read the attribute '") + name + "'";
    const Hid id = file_.own(H5Aopen(object, name, H5P_DEFAULT), H5Aclose, what);
    const Hid space = file_.own(H5Aget_space(id), H5Sclose, what);
    const Hid type = file_.own(H5Aget_type(id), H5Tclose, what);
    if (H5Tget_class(type) != H5T_INTEGER || H5Sget_simple_extent_npoints(space) != 1)
      file_.fail_with(Status::INVALID_ARGUMENT, std::string("the attribute '") + name + "' is no single integer");
    std::int64_t value = 0;
    file_.check(H5Aread(id, H5T_NATIVE_INT64, &value), what);
    return value;
  }

  std::string text_attribute(hid_t object, const char* name) const {
    const std::string what = std::string("read the attribute '") + name + "'";
    const Hid id = file_.own(H5Aopen(object, name, H5P_DEFAULT), H5Aclose, what);
    const Hid stored = file_.own(H5Aget_type(id), H5Tclose, what);
    if (H5Tget_class(stored) != H5T_STRING || H5Tis_variable_str(stored) > 0)
      file_.fail_with(Status::INVALID_ARGUMENT, std::string("the attribute '") + name + "' is no text of fixed length");
    std::string text(H5Tget_size(stored), '\0');
    file_.check(H5Aread(id, stored, text.data()), what);
    text.resize(std::min(text.find('\0'), text.size()));
    return text;
  }

  Hdf5File file_;
  std::int64_t size_;
  Hid id_;
  Contents contents_;
  std::vector<std::pair<std::string, std::string>> other_names_; ///< path of the tensor, other name
};

} // namespace
} // namespace impl

Contents read_contents(const std::string& path) { return impl::ContentsReader(path).read(); }

} // namespace ostraka::checkpoint
