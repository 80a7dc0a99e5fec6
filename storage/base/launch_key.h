// What a launch key tells besides which launch is meant (client/library/settings.c makes them). Pure.
#ifndef CAIRN_STORAGE_BASE_LAUNCH_KEY_H_
#define CAIRN_STORAGE_BASE_LAUNCH_KEY_H_

#include <string>
#include <string_view>

namespace cairn {

// Is `later` the same Slurm job as `earlier`, after Slurm has restarted it? Then nothing of the earlier one is left.
bool IsRestartOf(std::string_view later, std::string_view earlier);

// The number of the Slurm job whose launch it is; "": of none, as far as the key tells.
std::string SlurmJobOf(std::string_view key);

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_LAUNCH_KEY_H_
