#include "daemon/core/variables.h"

#include <gtest/gtest.h>

#include <functional>

namespace cairn {
namespace {

local::Variable Array(std::int32_t id) {
  local::Variable variable;
  variable.set_id(id);
  variable.set_kind(local::ARRAY);
  variable.set_type(10);
  variable.set_name("field");
  variable.set_count(6);
  variable.set_bytes(48);
  for (std::uint64_t n : {10, 10}) variable.add_shape(n);
  for (std::uint64_t n : {4, 7}) variable.add_box_start(n);
  for (std::uint64_t n : {2, 3}) variable.add_box_count(n);
  return variable;
}

VariableList ListOf(std::initializer_list<local::Variable> variables) {
  VariableList list;
  for (const local::Variable& variable : variables) *list.Add() = variable;
  return list;
}

TEST(ValidateVariablesTest, AcceptsWhatIsSound) {
  EXPECT_TRUE(ValidateVariables(ListOf({Array(1), Array(2)})).ok());
}

TEST(ValidateVariablesTest, RefusesWhatIsNotNamingTheVariable) {
  const std::map<std::string, std::function<void(local::Variable&)>> wrong = {
      {"negative id", [](auto& v) { v.set_id(-1); }},
      {"no such type", [](auto& v) { v.set_type(16); }},
      {"a string has no size", [](auto& v) { v.set_type(14); }},
      {"bytes do not fit", [](auto& v) { v.set_bytes(47); }},
      {"count overflows", [](auto& v) { v.set_count(~0ull); }},
      {"count is not the box", [](auto& v) { v.set_count(7), v.set_bytes(56); }},
      {"no name", [](auto& v) { v.clear_name(); }},
      {"zero in the name", [](auto& v) { v.set_name(std::string("a\0b", 3)); }},
      {"name too long", [](auto& v) { v.set_name(std::string(5000, 'x')); }},
      {"no dimensions", [](auto& v) { v.clear_shape(), v.clear_box_start(), v.clear_box_count(); }},
      {"nine dimensions",
       [](auto& v) {
         for (int i = 0; i < 7; ++i) v.add_shape(1), v.add_box_start(0), v.add_box_count(1);
       }},
      {"dimensions differ", [](auto& v) { v.add_shape(1); }},
      {"the box leaves the shape", [](auto& v) { v.set_box_start(1, 8); }},
      {"the box starts outside", [](auto& v) { v.set_box_start(0, ~0ull); }},
      {"unknown kind", [](auto& v) { v.set_kind(static_cast<local::Kind>(7)); }},
  };
  for (const auto& [what, damage] : wrong) {
    local::Variable variable = Array(77);
    damage(variable);
    const absl::Status status = ValidateVariables(ListOf({variable}));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << what;
    const std::string id = std::to_string(variable.id());
    EXPECT_NE(status.ToString().find(id), std::string::npos) << what << ": " << status;
  }
}

TEST(ValidateVariablesTest, OnlyArraysHaveABox) {
  for (local::Kind kind : {local::PLAIN, local::VALUE}) {
    local::Variable variable = Array(1);
    variable.set_kind(kind);
    EXPECT_EQ(ValidateVariables(ListOf({variable})).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(ValidateVariablesTest, RefusesAnIdThatComesTwiceAndSumsThatOverflow) {
  EXPECT_EQ(ValidateVariables(ListOf({Array(1), Array(1)})).code(), absl::StatusCode::kInvalidArgument);
  local::Variable huge;
  huge.set_id(1);
  huge.set_type(5);
  huge.set_count(std::uint64_t{3} << 61);
  huge.set_bytes(std::uint64_t{3} << 61);
  EXPECT_EQ(ValidateVariables(ListOf({huge})).code(), absl::StatusCode::kInvalidArgument);
}

TEST(AgreementTest, NamesVariableAndBothRanksAndWhatDiffers) {
  Agreement agreement;
  ASSERT_TRUE(agreement.Join(3, ListOf({Array(1)})).ok());
  ASSERT_TRUE(agreement.Join(4, ListOf({Array(1)})).ok());
  local::Variable other = Array(1);
  other.set_shape(1, 11);
  const absl::Status status = agreement.Join(5, ListOf({other}));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  for (const char* part : {"variable 1", "rank 3 and rank 5", "shape 10 and 11"}) {
    EXPECT_NE(status.ToString().find(part), std::string::npos) << status;
  }
}

TEST(AgreementTest, PlainVariablesMayDifferInSizeBetweenRanksButNotInKind) {
  Agreement agreement;
  local::Variable plain;
  plain.set_id(2);
  plain.set_type(5);
  plain.set_count(3);
  plain.set_bytes(3);
  ASSERT_TRUE(agreement.Join(0, ListOf({plain})).ok());
  plain.set_count(4);
  EXPECT_TRUE(agreement.Join(1, ListOf({plain})).ok());
  EXPECT_FALSE(agreement.Join(2, ListOf({Array(2)})).ok());
}

}  // namespace
}  // namespace cairn
