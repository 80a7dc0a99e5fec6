// What `cairn vars` shows of a BP5 directory, as text and as JSON.
#ifndef CAIRN_CLIENT_CLI_BP_LISTING_H_
#define CAIRN_CLIENT_CLI_BP_LISTING_H_

#include <absl/status/status.h>

#include <string>
#include <vector>

#include "client/cli/bp/place.h"
#include "client/cli/bp/text_out.h"
#include "storage/format/bp5/metadata.h"

namespace cairn::cli {

struct ListingOptions {
  std::vector<std::string> patterns;
  bool blocks = false;
  bool attributes = false;
};

// One line about the directory, then one for each variable, in order of their names. Damaged records are left out;
// the first error is answered after all the rest was shown. kNotFound: a pattern matches nothing.
absl::Status ListAsText(const BpPlace& place, const bp5::Metadata& metadata, const ListingOptions& options,
                        TextOut& out);
// Everything that the metadata has of the chosen variables, block by block, whatever is asked for; exact numbers.
absl::Status ListAsJson(const BpPlace& place, const bp5::Metadata& metadata, const ListingOptions& options,
                        TextOut& out);

std::string KindName(bp5::Kind kind);  // "global_array"

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_BP_LISTING_H_
