// A checkpoint's view that is nowhere on disk: its metadata in memory, its data the ranks' files in the prefix, mapped.
#ifndef CAIRN_CLIENT_READER_VIEW_SOURCE_H_
#define CAIRN_CLIENT_READER_VIEW_SOURCE_H_

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "storage/file/bpdir/file_source.h"
#include "storage/format/view/view.h"

namespace cairn::reader {

// `folder`: of the view in the prefix, were it there ("ckpt.7.bp"): links are relative to it, and lead to files below
// the prefix. kNotFound: no prefix.
absl::StatusOr<std::unique_ptr<bpdir::FileSource>> SourceOfView(const std::string& prefix, const std::string& folder,
                                                                view::ViewFiles files);

}  // namespace cairn::reader

#endif  // CAIRN_CLIENT_READER_VIEW_SOURCE_H_
