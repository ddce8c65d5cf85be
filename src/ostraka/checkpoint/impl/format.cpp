// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/version.hpp>
#include <ostraka/checkpoint/impl/format.hpp>
#include <ostraka/checkpoint/impl/hdf5_image.hpp>
#include <ostraka/checkpoint/impl/hdf5_types.hpp>

#include <bit>
#include <map>

namespace ostraka::checkpoint::impl {

namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they stand in memory");

constexpr hsize_t alignment_from = 1 << 20; // larger tensors start at a page: ranks share fewer of them
constexpr hsize_t alignment = 4096;
constexpr hsize_t block_bytes = 1 << 18; // headers stand together, and small tensors

class FrameWriter {
public:
  explicit FrameWriter(const std::string& path) : file_(path), id_(create()) {}

  void write(Contents& contents) {
    text_attribute(id_, "format", format_name);
    attribute(id_, "format_version", H5T_STD_I64LE, H5T_NATIVE_INT64, &format_version);
    text_attribute(id_, "library_version", OSTRAKA_VERSION_STRING);
    for (const char* name : {main_weight_group, state_group, field_group, user_group})
      group(name);
    text_attribute(group(main_weight_group), "layout_report", contents.layout_report);
    if (contents.steps)
      attribute(group(state_group), "steps", H5T_STD_I64LE, H5T_NATIVE_INT64, &*contents.steps);
    for (Tensor& tensor : contents.tensors)
      create_tensor(tensor);
    groups_.clear();
    file_.check(id_.close(), "close the file");
    image_.write(file_.path());
  }

private:
  Hid create() {
    const Hid access = file_.own(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "set properties");
    file_.check(image_.use_in(access), "write to memory");
    file_.check(H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18), "set properties");
    file_.check(H5Pset_alignment(access, alignment_from, alignment), "set properties");
    file_.check(H5Pset_meta_block_size(access, block_bytes), "set properties");
    file_.check(H5Pset_small_data_block_size(access, block_bytes), "set properties");
    file_.check(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG), "set properties");
    return file_.own(H5Fcreate(file_.path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose, "create the file");
  }

  // "state/exp_avg" inside "state"
  const Hid& group(const std::string& name) {
    const auto found = groups_.find(name);
    if (found != groups_.end())
      return found->second;
    const std::size_t slash = name.find('/');
    const hid_t parent = slash == std::string::npos ? static_cast<hid_t>(id_) : group(name.substr(0, slash));
    const std::string link = escape(slash == std::string::npos ? name : name.substr(slash + 1));
    const Hid properties = file_.own(H5Pcreate(H5P_GROUP_CREATE), H5Pclose, "set properties");
    file_.check(H5Pset_link_creation_order(properties, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED),
                "set properties");
    Hid made = file_.own(H5Gcreate2(parent, link.c_str(), H5P_DEFAULT, properties, H5P_DEFAULT), H5Gclose,
                         "create the group '" + name + "'");
    return groups_.emplace(name, std::move(made)).first->second;
  }

  void attribute(hid_t object, const char* name, hid_t stored, hid_t given, const void* value) {
    const std::string what = std::string("write the attribute '") + name + "'";
    const Hid space = file_.own(H5Screate(H5S_SCALAR), H5Sclose, what);
    const Hid id = file_.own(H5Acreate2(object, name, stored, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose, what);
    file_.check(H5Awrite(id, given, value), what);
  }
  void text_attribute(hid_t object, const char* name, const std::string& text) {
    const Hid type = text_type(file_, text.size());
    attribute(object, name, type, type, text.c_str()); // of an empty one the zero behind it
  }

  Hid space_of(const Tensor& tensor) {
    if (tensor.is_text || tensor.shape.empty())
      return file_.own(H5Screate(H5S_SCALAR), H5Sclose, "make a space");
    const std::vector<hsize_t> extents(tensor.shape.begin(), tensor.shape.end());
    return file_.own(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), H5Sclose,
                     "make a space of " + std::to_string(extents.size()) + " dimensions");
  }

  // The space is taken now and written by others.
  Hid creation_properties() {
    Hid properties = file_.own(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "set properties");
    file_.check(H5Pset_layout(properties, H5D_CONTIGUOUS), "set properties");
    file_.check(H5Pset_alloc_time(properties, H5D_ALLOC_TIME_EARLY), "set properties");
    file_.check(H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER), "set properties");
    return properties;
  }

  void create_tensor(Tensor& tensor) {
    const hid_t parent = group(tensor.group);
    const std::string link = escape(tensor.name), what = "create '" + tensor.path() + "'";
    check_is_new(parent, link, tensor);
    const Hid type = file_type(file_, tensor), space = space_of(tensor), properties = creation_properties();
    const Hid id =
        file_.own(H5Dcreate2(parent, link.c_str(), type, space, H5P_DEFAULT, properties, H5P_DEFAULT), H5Dclose, what);
    text_attribute(id, "name", tensor.name);
    text_attribute(id, "dtype", dtype_text(tensor));
    attribute(id, "crc32c", H5T_STD_U32LE, H5T_NATIVE_UINT32, &tensor.crc32c);
    if (const auto length = tensor.bytes(); tensor.is_text) // an empty one takes a byte
      attribute(id, "length", H5T_STD_I64LE, H5T_NATIVE_INT64, &length);
    for (const std::string& other : tensor.other_names) {
      check_is_new(parent, escape(other), tensor);
      file_.check(H5Lcreate_hard(parent, link.c_str(), parent, escape(other).c_str(), H5P_DEFAULT, H5P_DEFAULT), what);
    }
    const haddr_t offset = H5Dget_offset(id);
    if (offset == HADDR_UNDEF && tensor.bytes() > 0)
      file_.fail_in_hdf5(what);
    tensor.offset = tensor.bytes() > 0 ? static_cast<std::int64_t>(offset) : 0;
  }

  void check_is_new(hid_t parent, const std::string& link, const Tensor& tensor) {
    if (file_.check(H5Lexists(parent, link.c_str(), H5P_DEFAULT), "look for '" + tensor.path() + "'") > 0)
      file_.fail_with(Status::INVALID_ARGUMENT,
                      "two tensors have the name '" + tensor.group + "/" + unescape(link) + "'");
  }

  Hdf5File file_;
  Hdf5Image image_;
  Hid id_;
  std::map<std::string, Hid> groups_;
};

} // namespace

void write_frame(const std::string& path, Contents& contents) { FrameWriter(path).write(contents); }

} // namespace ostraka::checkpoint::impl
