// SPDX-License-Identifier: Apache-2.0
// ostraka-checkpoint: reads its command line, calls the command, turns errors into exit statuses.
#include "commands.hpp"
#include "damage.hpp"
#include "text.hpp"
#include <ostraka/base/error.hpp>
#include <ostraka/base/version.hpp>
#include <ostraka/checkpoint/impl/format.hpp>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <functional>

namespace {

using namespace ostraka::tool;

constexpr const char* description =
    "Looks into checkpoints of Ostraka, compares them, and carries weights to and from Python.\n"
    "Serial; holds some MiB of a file at a time, so files may be larger than memory. Files are written beside their\n"
    "place and renamed: a command that fails leaves nothing behind. A progress bar shows on a terminal.";
constexpr const char* footer = R"(
EXIT STATUS
  0   done; the file is whole (verify), the files are equal (diff)
  1   files differ, or a file is damaged or of another format: standard output or error say what and where
  2   wrong usage, or a file that cannot be opened, read or written

PATTERNS
  --only takes full names ("encoder.weight"); * stands for any characters, ? for one. It may be given repeatedly.

EXAMPLES
  ostraka-checkpoint list run.h5
  ostraka-checkpoint diff --rtol 1e-12 monday.h5 tuesday.h5
  ostraka-checkpoint export run.h5 weights.safetensors
  ostraka-checkpoint import weights.safetensors start.h5

"ostraka-checkpoint COMMAND --help" says more about a command.)";

void add_only(CLI::App& command, std::vector<std::string>& only) {
  command.add_option("--only", only, "Only tensors whose name is PATTERN; may be repeated")
      ->type_name("PATTERN")
      ->expected(1)
      ->take_all();
}

void add_list(CLI::App& app, ListOptions& options, std::function<int()>& run) {
  auto* command = app.add_subcommand("list", "Names, types, shapes and bytes of what a checkpoint holds, and its step");
  command->add_option("FILE", options.file, "A checkpoint")->required();
  command->add_flag("--json", options.json, "JSON for programs");
  add_only(*command, options.only);
  command->callback([&] { run = [&] { return list(options); }; });
}

void add_verify(CLI::App& app, VerifyOptions& options, std::function<int()>& run) {
  auto* command =
      app.add_subcommand("verify", "Reads every byte and compares the CRC-32C of each dataset with the stored one");
  command->add_option("FILE", options.file, "A checkpoint")->required();
  add_only(*command, options.only);
  command->footer(
      "\nExit status 0: whole. 1: damaged (each dataset that differs is named) or no checkpoint. 2: cannot be opened.");
  command->callback([&] { run = [&] { return verify(options); }; });
}

void add_diff(CLI::App& app, DiffOptions& options, std::function<int()>& run) {
  auto* command = app.add_subcommand("diff", "Names, types, shapes and values in which two checkpoints differ");
  command->add_option("A", options.a, "A checkpoint")->required();
  command->add_option("B", options.b, "Another one")->required();
  command->add_option("--atol", options.tolerance.absolute, "|a - b| up to X is no difference")
      ->type_name("X")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--rtol", options.tolerance.relative, "|a - b| up to X * max(|a|, |b|) is no difference")
      ->type_name("X")
      ->check(CLI::NonNegativeNumber);
  add_only(*command, options.only);
  command->footer(
      "\nValues of one type are compared in their bits (0 and -0 differ, a NaN equals itself), those of two\n"
      "types as numbers. Exit status 0: equal. 1: different, or one is damaged. 2: one cannot be opened.");
  command->callback([&] { run = [&] { return diff(options); }; });
}

void add_export(CLI::App& app, ExportOptions& options, std::function<int()>& run) {
  auto* command =
      app.add_subcommand("export", "Writes the weights of a checkpoint as safetensors, types and names kept");
  command->add_option("FILE", options.file, "A checkpoint")->required();
  command->add_option("OUT", options.safetensors, "The safetensors file to write")->required();
  command->add_flag("--state", options.state, "The optimizer's state too, as \"ostraka.state/STATE/NAME\"");
  command->add_option("--metadata", options.metadata, "An entry for __metadata__, such as format=pt; may be repeated")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  command->add_flag("--force", options.force, "Replace OUT if it exists");
  add_only(*command, options.only);
  command->footer(
      "\nTied tensors are written once; __metadata__ gives the other names as \"ALIAS\": \"NAME\". It also has\n"
      "ostraka_steps, the optimizer's steps. What is read is compared with its CRC-32C. The user's texts\n"
      "become entries of __metadata__; his other values and fields stay behind.");
  command->callback([&] { run = [&] { return export_safetensors(options); }; });
}

void add_import(CLI::App& app, ImportOptions& options, std::function<int()>& run) {
  auto* command = app.add_subcommand("import", "Writes a checkpoint with the tensors of a safetensors file");
  command->add_option("IN", options.safetensors, "A safetensors file")->required();
  command->add_option("OUT", options.file, "The checkpoint to write")->required();
  command
      ->add_option("--steps", options.steps,
                   "The optimizer's steps (default: ostraka_steps of __metadata__, else none)")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--force", options.force, "Replace OUT if it exists");
  add_only(*command, options.only);
  command->footer(
      "\nTakes F64, F32, BF16, F16, I64, I32 and U8. \"ostraka.state/STATE/NAME\" becomes optimizer state, all\n"
      "else weights. Loading a checkpoint converts types: nothing needs to be converted here.");
  command->callback([&] { run = [&] { return import_safetensors(options); }; });
}

int report(const std::exception& error, int status) {
  std::fflush(stdout);
  std::fprintf(stderr, "ostraka-checkpoint: %s\n", printable(error.what()).c_str());
  return status;
}

int run_reporting(const std::function<int()>& run) {
  try {
    const int status = run();
    if (std::fflush(stdout) == 0)
      return status;
    std::perror("ostraka-checkpoint: standard output");
    return trouble;
  } catch (const Damage& error) {
    return report(error, difference_found);
  } catch (const std::exception& error) {
    return report(error, trouble);
  }
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app(description, "ostraka-checkpoint");
  app.set_version_flag("--version", "ostraka-checkpoint " OSTRAKA_VERSION_STRING " (format " +
                                        std::to_string(ostraka::checkpoint::impl::format_version) + ")");
  app.require_subcommand(0, 1);
  app.footer(footer);
  ListOptions list_options;
  VerifyOptions verify_options;
  DiffOptions diff_options;
  ExportOptions export_options;
  ImportOptions import_options;
  std::function<int()> run;
  add_list(app, list_options, run);
  add_verify(app, verify_options, run);
  add_diff(app, diff_options, run);
  add_export(app, export_options, run);
  add_import(app, import_options, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? success : trouble;
  }
  if (run)
    return run_reporting(run);
  std::fprintf(stderr, "ostraka-checkpoint: expected a command (list, verify, diff, export or import), found none; "
                       "--help says more\n");
  return trouble;
}
