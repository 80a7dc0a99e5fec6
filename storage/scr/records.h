// SCR's records as structures: dataset descriptor, filemap and META, cache index, flush, nodes and halt file, prefix
// index, summary, rank2file. Source: SCR specification, sections 3 to 9. Pure: trees in, structures out. Unknown keys are kept: each
// Put… changes only its own keys of the tree that it is given.
#ifndef CAIRN_STORAGE_SCR_RECORDS_H_
#define CAIRN_STORAGE_SCR_RECORDS_H_

#include "storage/scr/cache_index.h"
#include "storage/scr/descriptor.h"
#include "storage/scr/filemap.h"
#include "storage/scr/flush_file.h"
#include "storage/scr/halt.h"
#include "storage/scr/meta.h"
#include "storage/scr/nodes.h"
#include "storage/scr/prefix_index.h"
#include "storage/scr/rank2file.h"
#include "storage/scr/summary.h"

#endif  // CAIRN_STORAGE_SCR_RECORDS_H_
