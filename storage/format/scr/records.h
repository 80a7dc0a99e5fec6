// SCR's records as structures: dataset descriptor, filemap and META, cache index, flush, nodes and halt file, prefix
// index, summary, rank2file. Source: SCR specification, sections 3 to 9. Pure: trees in, structures out. Unknown keys
// are kept: each Put… changes only its own keys of the tree that it is given.
#ifndef CAIRN_STORAGE_FORMAT_SCR_RECORDS_H_
#define CAIRN_STORAGE_FORMAT_SCR_RECORDS_H_

#include "storage/format/scr/cache_index.h"
#include "storage/format/scr/descriptor.h"
#include "storage/format/scr/filemap.h"
#include "storage/format/scr/flush_file.h"
#include "storage/format/scr/halt.h"
#include "storage/format/scr/meta.h"
#include "storage/format/scr/nodes.h"
#include "storage/format/scr/prefix_index.h"
#include "storage/format/scr/rank2file.h"
#include "storage/format/scr/summary.h"

#endif  // CAIRN_STORAGE_FORMAT_SCR_RECORDS_H_
