// One of each of SCR's records, as Cairn writes them.
#ifndef CAIRN_TESTS_STORAGE_FORMAT_SCR_SAMPLE_RECORDS_H_
#define CAIRN_TESTS_STORAGE_FORMAT_SCR_SAMPLE_RECORDS_H_

#include <map>
#include <string>

#include "storage/format/kvtree/tree.h"

namespace cairn::testing {

// By file name. Of the redundancy records, those of scheme SINGLE, and a header as XOR has it.
std::map<std::string, kvtree::Tree> SampleRecords();

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_STORAGE_FORMAT_SCR_SAMPLE_RECORDS_H_
