// SPDX-License-Identifier: Apache-2.0
// Overheads of well-known networks, tests/data/models: the numbers that the documents quote.
#include "layout_test.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>

namespace ostraka::layout::test {
namespace {

struct Unit {
  std::int64_t count;
  std::vector<Shape> shapes;
};

struct Model {
  std::string name;
  std::int64_t parameters;
  std::vector<Unit> units;
};

Model read(const std::filesystem::path& file) {
  std::ifstream stream(file);
  const auto json = nlohmann::json::parse(stream);
  Model model{file.stem().string(), json.at("parameters"), {}};
  for (const auto& unit : json.at("units")) {
    model.units.push_back({unit.at("count"), {}});
    for (const auto& tensor : unit.at("tensors"))
      model.units.back().shapes.push_back(tensor.at(1).get<Shape>());
  }
  return model;
}

const std::filesystem::path folder = std::filesystem::path(OSTRAKA_TEST_DATA) / "models";

Model model(const std::string& name) { return read(folder / (name + ".json")); }

std::vector<Model> all_models() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Model> models;
  for (const auto& file : files)
    models.push_back(read(file));
  return models;
}

/// What the largest segment costs everybody, in percent of the payload, over all units. `segment` gives the largest
/// segment of one unit.
template <class Segment>
double overhead(const Model& model, int ranks, Segment segment) {
  long double all = 0, payload = 0;
  for (const Unit& unit : model.units) {
    all += static_cast<long double>(unit.count) * static_cast<long double>(segment(unit.shapes)) * ranks;
    for (const Shape& shape : unit.shapes)
      payload += static_cast<long double>(unit.count) * static_cast<long double>(naive_numel(shape));
  }
  return static_cast<double>(100 * (all / payload - 1));
}

double reference(const Model& model, int ranks) {
  return overhead(model, ranks, [&](const auto& shapes) { return build_reference(shapes, ranks).segment_size(); });
}

double ragged(const Model& model, int ranks, const Atom& atom) {
  return overhead(model, ranks, [&](const auto& shapes) { return build_ragged(shapes, ranks, {atom}).segment_size(); });
}

double planned(const Model& model, int ranks, const Atom& atom) {
  return overhead(model, ranks,
                  [&](const auto& shapes) { return build_planned(shapes, ranks, {}, {atom}).segment_size(); });
}

double bound(const Model& model, int ranks, const Atom& atom) {
  return overhead(model, ranks, [&](const auto& shapes) { return equal_segment_bound(shapes, ranks, {}, {atom}); });
}

/// `value` as text with as many digits as `printed` has behind its point.
void expect_prints(double value, const std::string& printed, const std::string& what) {
  const std::size_t point = printed.find('.');
  const int digits = point == std::string::npos ? 0 : static_cast<int>(printed.size() - point - 1);
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  EXPECT_EQ(text, printed) << what;
}

struct Quoted {
  const char* model;
  const char* percent[3]; ///< on 8, 64 and 1,024 ranks
};

constexpr int ranks[] = {8, 64, 1024};

TEST(Models, SumsOfElements) {
  const auto models = all_models();
  EXPECT_EQ(models.size(), 7u);
  for (const Model& each : models) {
    std::int64_t sum = 0;
    for (const Unit& unit : each.units)
      for (const Shape& shape : unit.shapes)
        sum += unit.count * naive_numel(shape);
    EXPECT_EQ(sum, each.parameters) << each.name;
  }
}

TEST(Models, ReferenceRowsAsQuoted) {
  const Quoted table[] = {{"llama-3-8b", {"0.01", "0.10", "6.76"}},
                          {"deepseek-v3", {"4.08", "46.72", "680"}},
                          {"gpt-oss-120b", {"3.23", "31.85", "424"}},
                          {"resnet50", {"2.54", "7.34", "382"}}};
  for (const Quoted& row : table)
    for (std::size_t r = 0; r < 3; ++r)
      expect_prints(reference(model(row.model), ranks[r]), row.percent[r],
                    row.model + std::string(" on ") + std::to_string(ranks[r]));
}

TEST(Models, RaggedRowsAsQuoted) {
  const Quoted table[] = {{"llama-3-8b", {"0.01", "0.10", "0.91"}},
                          {"deepseek-v3", {"0.77", "6.11", "160"}},
                          {"gpt-oss-120b", {"1.68", "15.49", "424"}},
                          {"resnet50", {"0.37", "2.98", "57"}}};
  for (const Quoted& row : table)
    for (std::size_t r = 0; r < 3; ++r)
      expect_prints(ragged(model(row.model), ranks[r], row_atom()), row.percent[r],
                    row.model + std::string(" on ") + std::to_string(ranks[r]));
}

TEST(Models, RowsOfTheLastDimensionCutWell) {
  EXPECT_LE(ragged(model("deepseek-v3"), 1024, last_dims_atom(1)), 0.1);
  EXPECT_LE(ragged(model("gpt-oss-120b"), 1024, last_dims_atom(1)), 0.2);
  EXPECT_LE(ragged(model("llama-3-8b"), 1024, last_dims_atom(1)), 1);
  EXPECT_LE(ragged(model("resnet50"), 1024, last_dims_atom(1)), 0.4);
}

const Atom every_atom[] = {element_atom(), last_dims_atom(1), row_atom(), block_atom(16)};

TEST(Models, PlannedIsWithinTwoPercentOfTheBest) {
  for (const Model& each : all_models())
    for (const Atom& atom : every_atom)
      for (const int count : {8, 64, 1024, 16384}) {
        const double best = std::max(ragged(each, count, atom), bound(each, count, atom));
        EXPECT_LE(planned(each, count, atom), best + 2) << each.name << ", " << to_string(atom) << ", " << count;
        EXPECT_GE(planned(each, count, atom), bound(each, count, atom) - 1e-9);
      }
}

// The same for every unit by itself, which sums over units cannot show.
TEST(Models, PlannedUnitsAreLegalAndWithinTwoPercent) {
  double worst = 0;
  for (const Model& each : all_models())
    for (const Unit& unit : each.units)
      for (const Atom& atom : every_atom)
        for (const int count : {8, 64, 1024}) {
          SCOPED_TRACE(each.name + describe(unit.shapes, count, {atom}));
          const GlobalLayout planned = build_planned(unit.shapes, count, {}, {atom});
          const GlobalLayout ragged = build_ragged(unit.shapes, count, {atom});
          expect_legal(planned, {atom});
          expect_legal(ragged, {atom});
          const std::int64_t best =
              std::max(ragged.segment_size(), equal_segment_bound(unit.shapes, count, {}, {atom}));
          const double percent = 100 * static_cast<double>(count) * static_cast<double>(planned.segment_size() - best) /
                                 static_cast<double>(planned.payload());
          EXPECT_LE(percent, 2);
          worst = std::max(worst, percent);
          EXPECT_EQ(build_automatic(unit.shapes, count, {}, {atom}, true), planned);
        }
  std::cout << "planned is at most " << worst << " % of the payload above the best of ragged and bound\n";
}

// What parameter groups use: 64 bytes a tensor, 16 bytes a segment, elements.
TEST(Models, DefaultOfParameterGroupsCostsNothing) {
  for (const Model& each : all_models())
    for (const Unit& unit : each.units)
      for (const int count : {8, 64, 1024}) {
        const GlobalLayout flat = build_flat(unit.shapes, count, {.tensor = 32, .segment = 8});
        EXPECT_LE(flat.padding(), 31 * static_cast<std::int64_t>(unit.shapes.size()) + 8 * count);
      }
}

} // namespace
} // namespace ostraka::layout::test
