// cairn.hpp, and the Fortran and Python bindings as programs of their own, against an honest daemon.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <complex>
#include <cstdlib>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "client/cairn.hpp"
#include "tests/client/fake_daemon.h"

namespace cairn {
namespace {

static_assert(type_code<std::int8_t>() == CAIRN_INT8 && type_code<std::uint8_t>() == CAIRN_UINT8);
static_assert(type_code<short>() == CAIRN_INT16 && type_code<unsigned>() == CAIRN_UINT32);
static_assert(type_code<long>() == CAIRN_INT64 && type_code<unsigned long long>() == CAIRN_UINT64);
static_assert(type_code<char>() == CAIRN_CHAR && type_code<std::byte>() == CAIRN_BYTE);
static_assert(type_code<std::complex<double>>() == CAIRN_COMPLEX_DOUBLE && type_code<long double>() == 11);
static_assert(type_code<bool>() == 0 && type_code<std::string>() == 0);
static_assert(!std::is_copy_constructible_v<Session> && std::is_nothrow_move_constructible_v<Session>);

class BindingTest : public testing::Test {
 protected:
  BindingTest() {
    daemon_.PlayPeer([this](FakePeer& peer) { honest_.Serve(peer); });
  }
  Options options() const {
    return {.prefix = "/prefix", .rank = 0, .nranks = 1, .launch = "key", .address = daemon_.address()};
  }
  // Runs a program that finds the daemon by the environment; its exit code.
  int Run(const std::string& command) {
    const std::string environment = "CAIRN_PREFIX=/prefix CAIRN_LAUNCH=key CAIRN_ADDRESS=" + daemon_.address() + " ";
    const int status = std::system((environment + command).c_str());
    daemon_.Join();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  HonestDaemon honest_;
  FakeDaemon daemon_;
};

TEST_F(BindingTest, CppMemoryComesBackThroughSpansAndResults) {
  auto opened = Session::open(options());
  ASSERT_TRUE(opened) << opened.error().message;
  Session session = std::move(*opened);
  std::vector<double> field(30 * 40), saved;
  std::iota(field.begin(), field.end(), 0.5);
  long step = 17;
  std::vector<float> plain(100, 2.5f);
  ASSERT_TRUE(session.protect(1, std::span(plain)));
  ASSERT_TRUE(session.value(2, "step", step));
  ASSERT_TRUE(session.array(
      3, "field", std::span(field),
      {.shape = {28, 38}, .start = {0, 0}, .count = {28, 38}, .mem_count = {30, 40}, .mem_start = {1, 1}}));
  EXPECT_EQ(session.latest().code(), Code::kNotFound);
  const auto dataset = session.checkpoint(17);
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_TRUE(session.test(*dataset, Level::kLocal).value_or(false));
  EXPECT_TRUE(session.wait(*dataset, Level::kLocal, std::chrono::seconds(5)));
  saved = field;
  for (std::size_t i = 1; i < 29; ++i) std::fill_n(field.begin() + static_cast<long>(i * 40 + 1), 38, -1.0);
  plain.assign(100, 0);
  step = 0;
  const auto latest = session.latest();
  ASSERT_TRUE(latest);
  EXPECT_EQ(latest->step, 17u);
  const auto tier = session.restore(latest->dataset);
  ASSERT_TRUE(tier) << tier.error().message;
  EXPECT_EQ(*tier, Tier::kCache);
  EXPECT_EQ(field, saved);
  EXPECT_EQ(plain, std::vector<float>(100, 2.5f));
  EXPECT_EQ(step, 17);
  const auto stored = session.stored(latest->dataset);
  ASSERT_TRUE(stored);
  ASSERT_EQ(stored->size(), 3u);
  EXPECT_STREQ((*stored)[2].name, "field");
  EXPECT_TRUE(session.stored(latest->dataset, 2));
  EXPECT_EQ(session.stored(latest->dataset, 9).code(), Code::kNotFound);
  EXPECT_TRUE(session.close());
}

TEST_F(BindingTest, CppResumes) {
  auto session = Session::open(options());
  ASSERT_TRUE(session) << session.error().message;
  std::vector<double> field(10'000, 1.5);
  ASSERT_TRUE(session->protect(1, std::span(field)));
  EXPECT_EQ(session->resume().code(), Code::kNotFound);
  const auto dataset = session->checkpoint(17);
  ASSERT_TRUE(dataset) << dataset.error().message;
  field.assign(field.size(), 0);
  const auto resumed = session->resume();
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_EQ(resumed->step, 17u);
  EXPECT_EQ(resumed->dataset, *dataset);
  EXPECT_EQ(resumed->tier, Tier::kCache);
  EXPECT_EQ(field.back(), 1.5);

  ASSERT_TRUE(session->checkpoint(666));  // damaged
  field.assign(field.size(), 0);
  const auto dirty = session->resume();
  ASSERT_EQ(dirty.code(), Code::kDirty);
  EXPECT_NE(dirty.error().message.find("protect all variables anew"), std::string::npos) << dirty.error().message;
  EXPECT_EQ(field.front(), 1.5);
  EXPECT_EQ(field.back(), 0) << "half of it";
  EXPECT_EQ(session->checkpoint(18).code(), Code::kDirty);
  ASSERT_TRUE(session->protect(1, std::span(field)));
  EXPECT_EQ(session->resume().code(), Code::kNotFound);
  EXPECT_TRUE(session->checkpoint(18));
}

TEST_F(BindingTest, CppReadsAndFills) {
  auto opened = Session::open(options());
  ASSERT_TRUE(opened) << opened.error().message;
  Session session = std::move(*opened);
  std::vector<double> field(6 * 7);
  std::iota(field.begin(), field.end(), 0.0);
  long step = 17;
  ASSERT_TRUE(session.value(2, "step", step));
  ASSERT_TRUE(session.array(3, "field", std::span(field), {.shape = {6, 7}, .start = {0, 0}, .count = {6, 7}}));
  const auto dataset = session.checkpoint(17);
  ASSERT_TRUE(dataset) << dataset.error().message;
  std::vector<double> some(2 * 3);
  EXPECT_TRUE(session.set_fill("field", -1.0));
  const auto read = session.read(*dataset, "field", {1, 2}, {2, 3}, std::span(some));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(some, (std::vector<double>{9, 10, 11, 16, 17, 18}));
  EXPECT_TRUE(session.unset_fill("field"));
  long back = 0;
  EXPECT_TRUE(session.read(*dataset, "step", {}, {}, std::span(&back, 1)));
  EXPECT_EQ(back, 17);
  EXPECT_EQ(session.read(*dataset, "none", {}, {}, std::span(&back, 1)).code(), Code::kNotFound);
  EXPECT_EQ(session.read(*dataset, "field", {0, 0}, {3, 3}, std::span(some)).code(), Code::kInvalidArgument)
      << "a span too small";
  EXPECT_EQ(session.read(*dataset, "field", {0}, {3}, std::span(some)).code(), Code::kInvalidArgument);
  EXPECT_EQ(session.read(*dataset, "field", {5, 0}, {2, 1}, std::span(some)).code(), Code::kInvalidArgument);
  EXPECT_EQ(session.read(*dataset, "step", {}, {}, std::span(some)).code(), Code::kFailedPrecondition);
}

TEST(ObservingTest, CppObserves) {
  local::Open open;
  FakeDaemon daemon;
  daemon.Play([&] {
    FakePeer peer = daemon.Accept();
    open = peer.Greet(0);
    peer.Refuse(peer.Expect(local::Request::kLatest), local::NOT_FOUND, "nothing");
  });
  auto session = Session::open({.prefix = "/prefix", .address = daemon.address(), .observer = true});
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_EQ(session->latest().code(), Code::kNotFound);
  daemon.Join();
  EXPECT_TRUE(open.observer());
}

TEST_F(BindingTest, CppNamesFindsAndRejects) {
  auto session = Session::open(options());
  ASSERT_TRUE(session) << session.error().message;
  std::vector<double> field(100, 1.5);
  ASSERT_TRUE(session->protect(1, std::span(field)));
  ASSERT_TRUE(session->set_name("best"));
  const auto dataset = session->checkpoint(17);
  ASSERT_TRUE(dataset) << dataset.error().message;
  const auto found = session->find("best");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->dataset, *dataset);
  EXPECT_EQ(found->step, 17u);
  EXPECT_EQ(session->find("worst").code(), Code::kNotFound);
  EXPECT_EQ(session->dataset_name(*dataset).value_or(""), "best");
  const auto plain = session->checkpoint(18);
  EXPECT_EQ(session->dataset_name(*plain).value_or(""), "ckpt." + std::to_string(*plain));
  EXPECT_EQ(session->dataset_name(99).code(), Code::kNotFound);
  EXPECT_TRUE(session->reject(*plain));
  EXPECT_EQ(session->reject(99).code(), Code::kNotFound);
  EXPECT_EQ(session->resume().code(), Code::kNotFound);
}

TEST_F(BindingTest, CppAsksForRedundancy) {
  auto session = Session::open(options());
  ASSERT_TRUE(session) << session.error().message;
  std::vector<double> field(100, 1.5);
  ASSERT_TRUE(session->protect(1, std::span(field)));
  ASSERT_TRUE(session->redundancy("partner"));
  EXPECT_TRUE(session->checkpoint(17));
  EXPECT_EQ(session->redundancy("mirror").code(), Code::kInvalidArgument);
  EXPECT_TRUE(session->output_begin(18, CAIRN_OUTPUT));
  EXPECT_TRUE(session->output_end());
  ASSERT_TRUE(session->redundancy());
  EXPECT_TRUE(session->checkpoint(19));
  ASSERT_TRUE(session->redundancy("rs:4+2"));
  EXPECT_TRUE(session->checkpoint(20));
  EXPECT_EQ(honest_.schemes(),
            (std::vector{local::SCHEME_PARTNER, local::SCHEME_PARTNER, local::SCHEME_NOT_GIVEN, local::SCHEME_RS}));
  EXPECT_EQ(honest_.set_sizes(), (std::vector{std::pair{6u, 2u}}));
}

TEST_F(BindingTest, CppIsSteered) {
  auto session = Session::open(options());
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_FALSE(session->need_checkpoint().value_or(true));
  EXPECT_TRUE(session->need_checkpoint().value_or(false));
  EXPECT_NE(session->why().find("every call 2"), std::string::npos);
  EXPECT_FALSE(session->should_exit().value_or(true));
  EXPECT_FALSE(session->should_exit().value_or(true));
  EXPECT_TRUE(session->should_exit().value_or(false));
  EXPECT_NE(session->why().find("enough"), std::string::npos);
}

TEST_F(BindingTest, CppErrorsCarryCodeAndWords) {
  auto session = Session::open(options());
  ASSERT_TRUE(session) << session.error().message;
  std::vector<double> small(10);
  const auto small_span = session->array(1, "a", std::span(small), {.shape = {4, 4}, .start = {0, 0}, .count = {4, 4}});
  EXPECT_EQ(small_span.code(), Code::kInvalidArgument) << "a span too small for its box";
  EXPECT_EQ(session->array(1, "a", std::span(small), {.shape = {4, 4}, .start = {0}, .count = {4, 2}}).code(),
            Code::kInvalidArgument);
  const auto gone = session->unprotect(77);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::kNotFound);
  EXPECT_NE(gone.error().message.find("77"), std::string::npos);
  const auto output = session->output_begin(3, CAIRN_OUTPUT);
  ASSERT_TRUE(output);
  EXPECT_EQ(session->route_file("a").value_or(""), "/cache/a");
  EXPECT_TRUE(session->output_end());
  EXPECT_EQ(session->restart_file(*output, "a").value_or(""), "/cache/a");
}

TEST_F(BindingTest, FortranMemoryComesBack) {
  EXPECT_EQ(Run(std::getenv("CAIRN_FORTRAN_PROGRAM")), 0);
  EXPECT_EQ(honest_.checkpoints(), 3u);
  EXPECT_EQ(honest_.schemes(), (std::vector{local::SCHEME_NOT_GIVEN, local::SCHEME_RS, local::SCHEME_NOT_GIVEN}));
  EXPECT_EQ(honest_.set_sizes(), (std::vector{std::pair{12u, 2u}}));
  // A box of 2 x 3 inside 4 x 5, fastest first: stored as 3 rows of 2.
  const std::string box = honest_.Stored(3);
  ASSERT_EQ(box.size(), 6 * sizeof(float));
  const auto* values = reinterpret_cast<const float*>(box.data());
  EXPECT_EQ(std::vector<float>(values, values + 6), (std::vector<float>{22, 32, 23, 33, 24, 34}));
}

TEST_F(BindingTest, PythonMemoryComesBack) {
  EXPECT_EQ(Run("/usr/bin/python3 tests/client/python_program.py"), 0);
  EXPECT_EQ(honest_.checkpoints(), 5u);
  EXPECT_EQ(honest_.schemes(), (std::vector{local::SCHEME_NOT_GIVEN, local::SCHEME_NOT_GIVEN, local::SCHEME_XOR,
                                            local::SCHEME_NOT_GIVEN, local::SCHEME_NOT_GIVEN}));
  EXPECT_EQ(honest_.set_sizes(), (std::vector{std::pair{4u, 1u}}));
}

}  // namespace
}  // namespace cairn
