// SPDX-License-Identifier: Apache-2.0
#include "objects.hpp"
#include <ostraka/checkpoint.h>

using namespace ostraka;
using namespace ostraka::capi;
using checkpoint::Content;

namespace {

const ostraka_save_options_t default_save{sizeof(ostraka_save_options_t), OSTRAKA_SAVE_OPTIONS_VERSION, 1};
const ostraka_load_options_t default_load{
    sizeof(ostraka_load_options_t), OSTRAKA_LOAD_OPTIONS_VERSION, 1, 1, 1, 0, 0, nullptr};

constexpr Versions save_versions{"save options", OSTRAKA_SAVE_OPTIONS_VERSION, 16};
constexpr Versions load_versions{"load options", OSTRAKA_LOAD_OPTIONS_VERSION, 40};

struct LeftOut {
  std::string missing, unexpected;
};
thread_local LeftOut left_out;

// The optimizer and what the program adds; both may be null.
struct Others {
  Others(ostraka_optimizer_t optimizer_handle, ostraka_extras_t extras_handle)
      : optimizer(optimizer_handle == nullptr ? nullptr : get(optimizer_handle)),
        extras(extras_handle == nullptr ? nullptr : get(extras_handle)) {}

  std::shared_ptr<OptimizerObject> optimizer;
  std::shared_ptr<ExtrasObject> extras;
};

// Everything by its handles; the optimizer's state is created where it is not there yet.
Content make_content(std::vector<buffer::NamedState> states, const Others& others) {
  Content content;
  content.states = std::move(states);
  if (others.optimizer != nullptr) {
    for (buffer::NamedState& state : others.optimizer->optimizer->named_states())
      content.states.push_back(std::move(state));
    content.steps = others.optimizer->optimizer->steps();
  }
  if (others.extras != nullptr) {
    content.user = others.extras->values;
    content.fields = others.extras->fields;
  }
  return content;
}

checkpoint::SaveOptions to_options(const ostraka_save_options_t* options) {
  return {read(options, default_save, save_versions).sync != 0};
}

checkpoint::LoadOptions to_options(const ostraka_load_options_t* options) {
  const ostraka_load_options_t asked = read(options, default_load, load_versions);
  return {asked.strict != 0, to_strings(asked.num_patterns, asked.patterns, "patterns"), asked.state != 0,
          asked.verify != 0};
}

std::string to_lines(const std::vector<std::string>& names) {
  std::string lines;
  for (const std::string& name : names)
    lines += (lines.empty() ? "" : "\n") + name;
  return lines;
}

// `states` are asked for when all arguments have been read.
template <class States>
void save(const char* path, States&& states, const Others& others, const ostraka_save_options_t* options) {
  const std::string file = text(path, "path");
  const checkpoint::SaveOptions asked = to_options(options);
  checkpoint::save(file, make_content(states(), others), asked);
}

template <class States>
void start_save(const char* path, States&& states, const Others& others, const ostraka_save_options_t* options,
                ostraka_async_save_t& result) {
  const std::string file = text(path, "path");
  const checkpoint::SaveOptions asked = to_options(options);
  auto started = checkpoint::AsyncSave::start(file, make_content(states(), others), asked);
  result = make_handle<ostraka_async_save_t>(std::make_shared<AsyncSaveObject>(AsyncSaveObject{std::move(started)}));
}

template <class States>
void load(const char* path, States&& states, const Others& others, const ostraka_load_options_t* options) {
  const std::string file = text(path, "path");
  const checkpoint::LoadOptions asked = to_options(options);
  Content content = make_content(states(), others);
  const checkpoint::LoadReport report = checkpoint::load(file, content, asked);
  left_out = {to_lines(report.missing), to_lines(report.unexpected)};
  if (others.optimizer != nullptr && asked.state && content.steps)
    others.optimizer->optimizer->set_steps(*content.steps);
  if (others.extras != nullptr) {
    others.extras->values = std::move(content.user);
    others.extras->texts.clear();
  }
}

} // namespace

extern "C" {

ostraka_status_t ostraka_save_options_init_versioned(ostraka_save_options_t* options, int64_t struct_size,
                                                     int32_t version) {
  return wall(__func__, [&] { write(options, default_save, struct_size, version, save_versions); });
}

ostraka_status_t ostraka_load_options_init_versioned(ostraka_load_options_t* options, int64_t struct_size,
                                                     int32_t version) {
  return wall(__func__, [&] { write(options, default_load, struct_size, version, load_versions); });
}

ostraka_status_t ostraka_save(const char* path, ostraka_fsdp_context_t context, ostraka_optimizer_t optimizer,
                              ostraka_extras_t extras, const ostraka_save_options_t* options) {
  return wall(__func__, [&] {
    const auto object = get(context);
    save(
        path, [&] { return object->context->all_states(); }, {optimizer, extras}, options);
  });
}

ostraka_status_t ostraka_save_ddp(const char* path, ostraka_ddp_t ddp, ostraka_optimizer_t optimizer,
                                  ostraka_extras_t extras, const ostraka_save_options_t* options) {
  return wall(__func__, [&] {
    const auto object = get(ddp);
    save(
        path, [&] { return object->ddp->all_states(); }, {optimizer, extras}, options);
  });
}

ostraka_status_t ostraka_async_save_start(const char* path, ostraka_fsdp_context_t context,
                                          ostraka_optimizer_t optimizer, ostraka_extras_t extras,
                                          const ostraka_save_options_t* options, ostraka_async_save_t* save) {
  return wall(__func__, [&] {
    const auto object = get(context);
    start_save(
        path, [&] { return object->context->all_states(); }, {optimizer, extras}, options, output(save, "save"));
  });
}

ostraka_status_t ostraka_async_save_start_ddp(const char* path, ostraka_ddp_t ddp, ostraka_optimizer_t optimizer,
                                              ostraka_extras_t extras, const ostraka_save_options_t* options,
                                              ostraka_async_save_t* save) {
  return wall(__func__, [&] {
    const auto object = get(ddp);
    start_save(
        path, [&] { return object->ddp->all_states(); }, {optimizer, extras}, options, output(save, "save"));
  });
}

ostraka_status_t ostraka_async_save_test(ostraka_async_save_t save, int32_t* is_done) {
  return wall(__func__, [&] {
    const auto object = get(save);
    int32_t& result = output(is_done, "is_done"); // before the others wait
    result = object->save->test() ? 1 : 0;
  });
}

ostraka_status_t ostraka_async_save_wait(ostraka_async_save_t save) {
  return wall(__func__, [&] { get(save)->save->wait(); });
}

ostraka_status_t ostraka_async_save_staging_bytes(ostraka_async_save_t save, int64_t* bytes) {
  return wall(__func__, [&] { output(bytes, "bytes") = get(save)->save->staging_bytes(); });
}

ostraka_status_t ostraka_async_save_release_memory(void) {
  return wall(__func__, [&] { checkpoint::AsyncSave::release_memory(); });
}

ostraka_status_t ostraka_async_save_destroy(ostraka_async_save_t* save) {
  return wall(__func__, [&] { remove(save); });
}

ostraka_status_t ostraka_load(const char* path, ostraka_fsdp_context_t context, ostraka_optimizer_t optimizer,
                              ostraka_extras_t extras, const ostraka_load_options_t* options) {
  return wall(__func__, [&] {
    const auto object = get(context);
    load(
        path, [&] { return object->context->all_states(); }, {optimizer, extras}, options);
  });
}

ostraka_status_t ostraka_load_ddp(const char* path, ostraka_ddp_t ddp, ostraka_optimizer_t optimizer,
                                  ostraka_extras_t extras, const ostraka_load_options_t* options) {
  return wall(__func__, [&] {
    const auto object = get(ddp);
    load(
        path, [&] { return object->ddp->all_states(); }, {optimizer, extras}, options);
  });
}

ostraka_status_t ostraka_load_left_out(const char** missing, const char** unexpected) {
  return wall(__func__, [&] {
    const char*& first = output(missing, "missing");
    output(unexpected, "unexpected") = left_out.unexpected.c_str();
    first = left_out.missing.c_str();
  });
}
}
