// SPDX-License-Identifier: Apache-2.0
// What the trace holds and where it is written. Tests start and finish it by hand: the test program holds a Session.
#include "fake_work.hpp"
#include "support/expect_error.hpp"
#include "trace_folder.hpp"
#include <ostraka/runtime/stream.hpp>
#include <ostraka/runtime/trace.hpp>

#include <thread>

namespace ostraka::runtime::test {
namespace {

using namespace std::chrono_literals;
using ostraka::test::expect_error;
using ostraka::test::ScopedEnvironment;
using trace::Clock;
using Names = std::vector<std::string>;

void record(const std::string& name) { trace::record("work", name, Clock::now(), Clock::now()); }

TEST(Trace, HasWhatChromeNeeds) {
  const TraceFolder folder;
  const auto before = Clock::now();
  trace::start();
  const auto after = Clock::now();
  EXPECT_TRUE(trace::is_tracing());
  trace::record("gathers", "allgather", after + 5us, after + 6500ns);
  trace::record("copies", "copy", after + 20us, after + 20us);
  trace::record("gathers", "allgather again", after + 30us, after + 3h);
  trace::finish();
  EXPECT_FALSE(trace::is_tracing());
  EXPECT_EQ(folder.files(), Names{"trace.0.json"});

  const auto events = folder.read();
  for (const auto& event : events) {
    EXPECT_TRUE(event.at("name").is_string());
    EXPECT_TRUE(event.at("ph") == "X" || event.at("ph") == "M");
    EXPECT_TRUE(event.at("tid").is_number_integer());
    EXPECT_EQ(event.at("pid"), 0);
  }
  EXPECT_EQ(events.at(0).at("name"), "process_name");
  EXPECT_EQ(events.at(0).at("args").at("name"), "rank 0");
  const auto found = complete_events(events);
  EXPECT_EQ(events.size(), 1 + 2 + found.size()); // the process and the tracks once each
  EXPECT_EQ(names(found), (Names{"allgather", "copy", "allgather again"}));
  EXPECT_EQ(tracks(found), (Names{"gathers", "copies", "gathers"}));
  const double latest_origin = std::chrono::duration<double, std::micro>(after - before).count();
  EXPECT_GE(found[0].begin, 5);
  EXPECT_LE(found[0].begin, 5 + latest_origin);
  EXPECT_NEAR(found[0].end - found[0].begin, 1.5, 1e-6);
  EXPECT_EQ(found[1].end, found[1].begin);
  EXPECT_NEAR(found[1].begin - found[0].begin, 15, 1e-6);
  EXPECT_NEAR(found[2].end - found[2].begin, 3 * 3600e6 - 30, 1e-3); // nanoseconds are not lost in a long run
}

TEST(Trace, EventsAreInOrderAndParentsFirst) {
  const TraceFolder folder;
  trace::start();
  const auto zero = Clock::now();
  trace::record("a", "inner", zero + 10us, zero + 20us);
  trace::record("a", "outer", zero + 10us, zero + 30us);
  trace::record("b", "first", zero + 5us, zero + 6us);
  trace::record("a", "outermost", zero + 10us, zero + 40us);
  trace::record("a", "last", zero + 50us, zero + 51us);
  trace::finish();
  EXPECT_EQ(names(complete_events(folder.read())), (Names{"first", "outermost", "outer", "inner", "last"}));
}

TEST(Trace, BodiesOfStreams) {
  const TraceFolder folder;
  trace::start();
  const auto compute = make_host_compute_stream();
  const auto queue = make_host_queue("row gather");
  const auto gate = std::make_shared<Event::State>();
  queue->wait(Event(gate));
  queue->launch("cast", [](const Execution&) { std::this_thread::sleep_for(2ms); });
  queue->launch("bad", [](const Execution&) { fail(Status::USER_FAILURE, "disk is full"); });
  queue->launch("skipped", [](const Execution&) {});
  compute->launch("adamw", [&](const Execution&) {
    compute->launch("copy", [](const Execution&) { std::this_thread::sleep_for(1ms); });
    gate->done = true;
    progress_all();
  });
  expect_error(Status::USER_FAILURE,
               [&] { compute->launch("bad step", [](const Execution&) { fail(Status::USER_FAILURE, "nan"); }); });
  trace::finish();

  const auto found = complete_events(folder.read());
  ASSERT_EQ(names(found), (Names{"adamw", "copy", "cast", "bad", "bad step"}));
  EXPECT_EQ(tracks(found), (Names{"compute", "compute", "row gather", "row gather", "compute"}));
  const auto &adamw = found[0], &copy = found[1], &cast = found[2], &bad = found[3], &bad_step = found[4];
  EXPECT_GE(adamw.begin, 0);
  EXPECT_LE(adamw.begin, copy.begin);
  EXPECT_GE(copy.end - copy.begin, 1000);
  EXPECT_LE(copy.end, cast.begin); // it waited for the gate
  EXPECT_GE(cast.end - cast.begin, 2000);
  EXPECT_LE(cast.end, bad.begin);
  EXPECT_LE(bad.end, adamw.end);
  EXPECT_LE(adamw.end, bad_step.begin);
}

TEST(Trace, OffMeansNoFile) {
  const TraceFolder folder;
  trace::start();
  record("kept");
  trace::finish();
  for (const char* off : {static_cast<const char*>(nullptr), ""}) {
    const ScopedEnvironment scope("OSTRAKA_TRACE", off);
    std::filesystem::remove(folder / "trace.0.json");
    trace::start();
    EXPECT_FALSE(trace::is_tracing());
    record("lost");
    make_host_compute_stream()->launch("lost", [](const Execution&) {});
    trace::write();
    trace::finish();
    EXPECT_EQ(folder.files(), Names{});
  }
  trace::start();
  trace::finish();
  EXPECT_EQ(names(complete_events(folder.read())), Names{"kept"});
}

TEST(Trace, RankIsInTheNameAndInTheEvents) {
  for (const auto& [asked, written] : {std::pair<const char*, const char*>{"trace.json", "trace.3.json"},
                                       {"trace", "trace.3.json"},
                                       {"trace.txt", "trace.txt.3.json"},
                                       {"a.json.b", "a.json.b.3.json"}}) {
    const TraceFolder folder(asked);
    trace::start();
    record("before the rank is known");
    trace::set_rank(3);
    trace::set_rank(5);
    record("after");
    trace::finish();
    ASSERT_EQ(folder.files(), Names{written});
    const auto events = folder.read(written);
    EXPECT_EQ(events.at(0).at("args").at("name"), "rank 3");
    for (const auto& event : events)
      EXPECT_EQ(event.at("pid"), 3);
    EXPECT_EQ(complete_events(events).size(), 2u);
  }
}

TEST(Trace, NextStartContinuesTheSameFile) {
  const TraceFolder folder;
  trace::start();
  trace::set_rank(2);
  record("first run");
  trace::finish();
  trace::start();
  record("second run");
  trace::finish();
  EXPECT_EQ(names(complete_events(folder.read("trace.2.json"))), (Names{"first run", "second run"}));

  const TraceFolder other;
  trace::start();
  record("other");
  trace::finish();
  EXPECT_EQ(names(complete_events(other.read())), Names{"other"});
}

TEST(Trace, TimeOutLeavesATrace) {
  const TraceFolder folder;
  const ScopedEnvironment limit("OSTRAKA_TIMEOUT_S", "0.1");
  trace::start();
  const auto queue = make_host_queue("row gather");
  queue->launch("cast", [](const Execution&) {});
  queue->wait(Event(std::make_shared<Event::State>()));
  expect_error(Status::TIME_OUT, [&] { synchronize(queue->record(), "unshard"); });

  const auto found = complete_events(folder.read());
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name, "cast");
  EXPECT_EQ(found[1].track, "time-outs");
  EXPECT_NE(found[1].name.find("unshard"), std::string::npos);
  EXPECT_NE(found[1].name.find("row gather stream: 2 steps"), std::string::npos);
  EXPECT_GE(found[1].end - found[1].begin, 0.1e6);
  record("after");
  trace::finish();
  EXPECT_EQ(complete_events(folder.read()).size(), 3u);
}

TEST(Trace, AnyNameIsValidJson) {
  const TraceFolder folder;
  trace::start();
  record("\"layer\\1\"\n\xc3\xa4 \xff!");
  trace::finish();
  EXPECT_EQ(names(complete_events(folder.read())), Names{"\"layer\\1\"\n\xc3\xa4 \xef\xbf\xbd!"});
}

// The level of the log is read once in a process, so this is the only test here that logs.
TEST(Trace, FileThatCannotBeWritten) {
  const ScopedEnvironment level("OSTRAKA_LOG_LEVEL", "warn");
  const TraceFolder nowhere("none/trace.json");
  testing::internal::CaptureStderr();
  trace::start();
  record("lost");
  EXPECT_NO_THROW(trace::finish());
  const std::string line = testing::internal::GetCapturedStderr();
  for (const std::string part : {"ostraka warn", "OSTRAKA_TRACE", "none/trace.0.json", "No such file"})
    EXPECT_NE(line.find(part), std::string::npos) << line;
  EXPECT_FALSE(trace::is_tracing());
  EXPECT_EQ(nowhere.files(), Names{});

  const TraceFolder taken;
  std::filesystem::create_directory(taken / "trace.0.json");
  testing::internal::CaptureStderr();
  trace::start();
  EXPECT_NO_THROW(trace::finish());
  EXPECT_NE(testing::internal::GetCapturedStderr().find("Is a directory"), std::string::npos);
  EXPECT_EQ(taken.files(), Names{"trace.0.json"});

  const TraceFolder folder;
  trace::start();
  record("kept");
  trace::write();
  std::filesystem::create_symlink("/dev/full", folder / "trace.0.json.part"); // a disk that is full from now on
  record("lost");
  testing::internal::CaptureStderr();
  EXPECT_NO_THROW(trace::finish());
  EXPECT_NE(testing::internal::GetCapturedStderr().find("No space left"), std::string::npos);
  EXPECT_EQ(folder.files(), Names{"trace.0.json"});
  EXPECT_EQ(names(complete_events(folder.read())), Names{"kept"});
}

} // namespace
} // namespace ostraka::runtime::test
