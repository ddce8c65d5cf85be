// SPDX-License-Identifier: Apache-2.0
// What layouts cost on the parameter lists of real networks: largest segment x ranks over payload, summed over the
// units of a model, beside the per-tensor ceil padding that dim-0 sharding of single tensors has and the lower bound
// for equal segments. usage: layouts [MODEL ...] ranks: 1
#include <ostraka/base/checked.hpp>
#include <ostraka/layout/builders.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

using namespace ostraka;
using namespace ostraka::layout;

namespace {

using Clock = std::chrono::steady_clock;

struct Unit {
  std::int64_t count;
  std::vector<Shape> shapes;
};

struct Model {
  std::string name;
  std::vector<Unit> units;
};

Model read_model(const std::filesystem::path& file) {
  std::ifstream stream(file);
  const auto json = nlohmann::json::parse(stream);
  Model model{file.stem().string(), {}};
  for (const auto& unit : json["units"]) {
    model.units.push_back({unit["count"], {}});
    for (const auto& tensor : unit["tensors"])
      model.units.back().shapes.push_back(tensor[1].get<Shape>());
  }
  return model;
}

std::vector<Model> read_models(const std::vector<std::string>& names) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(OSTRAKA_MODELS))
    if (names.empty() || std::find(names.begin(), names.end(), entry.path().stem().string()) != names.end())
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Model> models;
  for (const auto& file : files)
    models.push_back(read_model(file));
  return models;
}

// Overhead in percent of "elements on all ranks" that `cost` gives for one unit; negative: not applicable.
template <class Cost>
double overhead(const Model& model, Cost cost) {
  double all = 0, payload = 0;
  for (const Unit& unit : model.units) {
    const double elements = cost(unit.shapes);
    if (elements < 0)
      return -1;
    all += static_cast<double>(unit.count) * elements;
    for (const Shape& shape : unit.shapes)
      payload += static_cast<double>(unit.count) * static_cast<double>(numel(shape));
  }
  return 100 * (all / payload - 1);
}

double everybody(const GlobalLayout& layout) { return static_cast<double>(layout.segment_size()) * layout.segments(); }

double per_tensor_ceil(const std::vector<Shape>& shapes, int ranks) {
  double sum = 0;
  for (const Shape& shape : shapes)
    sum += static_cast<double>((rows(shape) + ranks - 1) / ranks) * ranks * static_cast<double>(row_numel(shape));
  return sum;
}

struct AtomChoice {
  const char* name;
  Atom atom;
  std::int64_t reference_block; ///< 0: the reference rule has no such atom
};

std::vector<Atom> atoms_for(const AtomChoice& choice, const std::vector<Shape>& shapes) {
  std::vector<Atom> atoms;
  for (const Shape& shape : shapes)
    atoms.push_back(choice.atom.kind == Atom::Kind::last_dims && shape.empty() ? element_atom() : choice.atom);
  return atoms;
}

double reference_cost(const std::vector<Shape>& shapes, int ranks, std::int64_t block) {
  if (block == 0 || std::any_of(shapes.begin(), shapes.end(), [&](const Shape& s) { return rows(s) % block != 0; }))
    return -1;
  try {
    return everybody(build_reference(shapes, ranks, block));
  } catch (const Error&) {
    return -1; // the common multiple leaves 64 bits
  }
}

void print_percent(double value) { value < 0 ? std::printf(" %9s", "-") : std::printf(" %9.3f", value); }

void print_row(const Model& model, int ranks, const AtomChoice& choice) {
  double seconds = 0;
  int layouts = 0;
  bool planned_meets_target = true;
  const auto reference =
      overhead(model, [&](const auto& shapes) { return reference_cost(shapes, ranks, choice.reference_block); });
  const auto planned = overhead(model, [&](const auto& shapes) {
    const auto start = Clock::now();
    const double cost = everybody(build_planned(shapes, ranks, {}, atoms_for(choice, shapes)));
    seconds += std::chrono::duration<double>(Clock::now() - start).count();
    ++layouts;
    return cost;
  });
  const auto ragged = overhead(
      model, [&](const auto& shapes) { return everybody(build_ragged(shapes, ranks, atoms_for(choice, shapes))); });
  const auto automatic = overhead(model, [&](const auto& shapes) {
    return everybody(build_automatic(shapes, ranks, {}, atoms_for(choice, shapes)));
  });
  const auto bound = overhead(model, [&](const auto& shapes) {
    return static_cast<double>(equal_segment_bound(shapes, ranks, {}, atoms_for(choice, shapes))) * ranks;
  });
  const auto ceil = overhead(model, [&](const auto& shapes) { return per_tensor_ceil(shapes, ranks); });
  planned_meets_target = planned <= std::max(ragged, bound) + 2;
  std::printf("%-22s %6d %-12s", model.name.c_str(), ranks, choice.name);
  for (const double value : {reference, planned, ragged, automatic, ceil, bound})
    print_percent(value);
  std::printf(" %9.3f%s%s\n", 1e3 * seconds / layouts, planned_meets_target ? "" : "  planned misses its target",
              automatic <= ragged + 3 ? "" : "  automatic misses its target");
}

// Planning a large unit, and one ownership query.
void print_speed() {
  std::mt19937_64 random(1);
  std::vector<Shape> shapes;
  std::vector<Atom> atoms;
  const std::int64_t widths[] = {64, 96, 128, 256, 384, 768, 1000, 1024, 3072, 4096};
  for (int i = 0; i < 1000; ++i) {
    shapes.push_back({static_cast<std::int64_t>(random() % 4096 + 1), widths[random() % 10]});
    atoms.push_back(i % 2 == 0 ? element_atom() : row_atom());
  }
  for (const auto& [name, chosen] : {std::pair{"elements", std::vector<Atom>{}},
                                     std::pair{"rows", std::vector<Atom>{row_atom()}}, std::pair{"mixed", atoms}}) {
    const auto start = Clock::now();
    const GlobalLayout layout = build_automatic(shapes, 100000, {16, 4}, chosen);
    const double plan_seconds = std::chrono::duration<double>(Clock::now() - start).count();
    constexpr int queries = 1000000;
    std::int64_t sum = 0;
    const auto first = Clock::now();
    for (int i = 0; i < queries; ++i) {
      const Range range = layout.segment_range(static_cast<int>(static_cast<std::int64_t>(i) * 7919 % 100000));
      sum += range.begin + layout.owners(i % 1000).last;
    }
    const double query_ns = 1e9 * std::chrono::duration<double>(Clock::now() - first).count() / queries;
    std::printf(
        "1,000 tensors, 100,000 ranks, %-8s: %s, overhead %.3f %%, planned in %.3f s (limit 0.3), ownership query "
        "%.0f ns (limit 1000) [%lld]\n",
        name, ostraka::layout::name(layout.policy()),
        100 * (everybody(layout) / static_cast<double>(layout.payload()) - 1), plan_seconds, query_ns,
        static_cast<long long>(sum % 10));
  }
}

} // namespace

int main(int argc, char** argv) {
  const auto models = read_models({argv + 1, argv + argc});
  std::printf(
      "overhead in %% of the payload: largest segment x ranks / payload - 1, summed over the units of a model\n");
  std::printf("%-22s %6s %-12s %9s %9s %9s %9s %9s %9s %9s\n", "model", "ranks", "atom", "reference", "planned",
              "ragged", "automatic", "ceil/tens", "bound", "plan ms");
  const AtomChoice choices[] = {{"element", element_atom(), 0},
                                {"last-dim row", last_dims_atom(1), 0},
                                {"dim-0 row", row_atom(), 1},
                                {"16-row block", block_atom(16), 16}};
  for (const Model& model : models)
    for (const AtomChoice& choice : choices)
      for (const int ranks : {8, 64, 1024, 16384})
        print_row(model, ranks, choice);
  print_speed();
}
