// Datasets, variables and catalogues for people.
#ifndef CAIRN_CLIENT_CLI_DESCRIBE_H_
#define CAIRN_CLIENT_CLI_DESCRIBE_H_

#include <string>

#include "proto/admin.pb.h"
#include "proto/catalogue.pb.h"
#include "storage/format/catalogue/scheme.h"

namespace cairn::cli {

std::string KindText(const admin::DatasetRow& row);   // "checkpoint+output (files)"
std::string WhereText(const admin::DatasetRow& row);  // "cache, prefix"
std::string StateText(const admin::DatasetRow& row);  // "whole, pinned"
std::string LevelText(local::Level level);

// "  its application has asked for redundancy xor", a line; empty: it has not.
std::string DescribeScheme(const AskedScheme& scheme);
std::string DescribeVariable(const local::Variable& variable);  // one line, indented by four
// Without the dataset: "out/fields.bp: 17 steps, 15 of them on the prefix (2.1 GB)"; one line, not ended.
std::string DescribeGrowing(const admin::GrowingDirectory& growing);
// "by parity".
std::string VerifiedByText(catalogue::VerifiedBy by);
std::string DescribeUnverified(std::uint64_t files);

std::string DescribeCatalogue(const catalogue::Catalogue& catalogue);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_DESCRIBE_H_
