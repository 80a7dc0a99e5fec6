--[[
Stage-in and stage-out for Slurm's burst_buffer/lua (slurm.conf: BurstBufferType=burst_buffer/lua). Slurm looks for this
file beside slurm.conf, on the controller. It moves no data: the daemons on the nodes do that. It only looks at the run's
directory, which the controller has to see, and waits:

  #BB_LUA cairn prefix=/scratch/me/heat [wait_in=SECONDS] [wait_out=SECONDS]

  stage-in   the job begins when no other launch of the run works, and no daemon still brings data to the prefix
  stage-out  the job is over for Slurm (jobs that depend on it, its next life) when nothing of it is on its way to the
             prefix any more

All of it is done with the rights of the job's user, by `cairn run wait`; only a slurmctld that is root can give it those
(SlurmUser=root): under another user each job that asks for this fails at its stage-in. Standard Lua from 5.1 on, no modules.
--]]

local kWait = { wait_in = 600, wait_out = 3600 }  -- seconds, unless the job says so; burst_buffer.conf bounds them, too
local kWaitMax = 7 * 24 * 3600
local kLineMax = 4096

-- Slurm has `slurm`; the tests call these functions without it.
local slurm = slurm or { SUCCESS = 0, ERROR = -1, log_info = function() end, log_error = function() end }

local cairn = os.getenv("CAIRN_COMMAND") or "cairn"

local function quoted(text)
  return "'" .. string.gsub(text, "'", "'\\''") .. "'"
end

-- Output and exit code of a line of shell. Old Lua does not tell the code when a pipe is closed.
local function run(line)
  local pipe = io.popen("{ " .. line .. " ; } 2>&1 </dev/null; echo \" $?\"", "r")
  if pipe == nil then return "no process could be started", 1 end
  local said = pipe:read("*a") or ""
  pipe:close()
  local text, code = string.match(said, "^(.-)%s*(%d+)%s*$")
  return text or said, tonumber(code) or 1
end

-- The job's wishes: nil if its script has no such line; else a table, or nil and what is wrong.
local function read_wishes(script)
  local file = io.open(script, "r")
  if file == nil then return nil, "the job's script cannot be read" end
  local wishes = nil
  for line in file:lines() do
    local words = #line <= kLineMax and string.match(line, "^#BB_LUA%s+cairn%s+(.*)$")
    if words then
      wishes = wishes or {}
      for word in string.gmatch(words, "%S+") do
        local name, value = string.match(word, "^(%w[%w_]*)=(.+)$")
        if name == "prefix" then
          if string.sub(value, 1, 1) ~= "/" then
            file:close()
            return nil, "#BB_LUA cairn: prefix=" .. value .. " is no absolute path"
          end
          wishes.prefix = value
        elseif kWait[name] then
          local seconds = string.match(value, "^%d+$") and tonumber(value)
          if not seconds or seconds < 1 or seconds > kWaitMax then
            file:close()
            return nil, "#BB_LUA cairn: " .. word .. " is no number of seconds, up to a week"
          end
          wishes[name] = seconds
        else
          file:close()
          return nil, "#BB_LUA cairn: " .. word .. " is none of prefix=, wait_in=, wait_out="
        end
      end
    end
  end
  file:close()
  if wishes and not wishes.prefix then return nil, "#BB_LUA cairn: there is no prefix=" end
  return wishes
end

-- As the job's user, whose files these are. Slurm 22.05 does not tell all functions whose job it is.
local function user_of(job, uid, gid)
  uid = tonumber(uid)
  gid = tonumber(gid)
  if uid and gid then return uid, gid end
  local said = run("squeue --noheader --states=all --format='%U %G' --jobs=" .. quoted(job))
  local found_uid, found_gid = string.match(said, "^(%d+)%s+(%d+)")
  return tonumber(found_uid), tonumber(found_gid)
end

local function as_user(uid, gid, seconds, command)
  local bound = "timeout --kill-after=5 " .. (seconds + 30) .. " "
  if uid == 0 then return run(bound .. command) end
  return run(string.format("%ssetpriv --reuid %d --regid %d --init-groups --inh-caps=-all env -i PATH=\"$PATH\" %s", bound, uid,
                           gid, command))
end

local function said_or(text, otherwise)
  text = string.gsub(text, "%c", " ")
  if text == "" then return otherwise end
  return string.sub(text, 1, 400)
end

-- Until nobody works under the run (but for launches of other jobs, if `of_job`). True, or false and why.
local function wait_for(job, uid, gid, wishes, seconds, of_job)
  uid, gid = user_of(job, uid, gid)
  if not uid or not gid then return false, "whose job " .. job .. " is could not be found out" end
  local command = string.format("%s run wait %s --timeout %ds%s", quoted(cairn), quoted(wishes.prefix), seconds,
                                of_job and " --job " .. quoted(job) or "")
  local said, code = as_user(uid, gid, seconds, command)
  if code == 0 then return true, said_or(said, "nobody works there") end
  if code == 4 then
    local above = (string.match(wishes.prefix, "^(.*)/[^/]+/*$") or "") .. "/"
    local _, is_there = as_user(uid, gid, 10, "test -d " .. quoted(above))
    if is_there == 0 then return true, "no run is there yet" end
    return false, wishes.prefix .. ": neither this folder nor the one above it is there on the controller"
  end
  return false, said_or(said, "cairn run wait ended with " .. code)
end

-- The epilogs, which order what the job has left to the prefix, may be at work when its stage-out begins.
local function await_epilogs(job, seconds)
  run("for second in $(seq " .. seconds .. "); do case $(squeue --noheader --states=all --format=%T --jobs=" ..
      quoted(job) .. ") in COMPLETING) sleep 1;; *) break;; esac; done")
end

-- Called in slurmctld while jobs are submitted: reads the script, no more. What is wrong with the line the user reads
-- where the job was submitted.
function slurm_bb_job_process(job_script)
  local _, wrong = read_wishes(job_script)
  if wrong then return slurm.ERROR, wrong end
  return slurm.SUCCESS
end

function slurm_bb_pools()
  return slurm.SUCCESS
end

function slurm_bb_setup(job_id, uid, gid, pool, bb_size, job_script)
  return slurm.SUCCESS
end

function slurm_bb_data_in(job_id, job_script, uid, gid)
  local wishes, wrong = read_wishes(job_script)
  if not wishes then return wrong and slurm.ERROR or slurm.SUCCESS, wrong end
  local done, said = wait_for(job_id, uid, gid, wishes, wishes.wait_in or kWait.wait_in, false)
  slurm.log_info("cairn: stage-in of job %s: %s", job_id, said)
  if done then return slurm.SUCCESS end
  return slurm.ERROR, "cairn: " .. said
end

function slurm_bb_real_size(job_id)
  return slurm.SUCCESS
end

-- The run's directory for the job, unless its script says another.
function slurm_bb_paths(job_id, job_script, path_file)
  local wishes = read_wishes(job_script)
  if not wishes then return slurm.SUCCESS end
  local file = io.open(path_file, "w")
  if file == nil then return slurm.ERROR, "cairn: " .. path_file .. " cannot be written" end
  file:write("CAIRN_PREFIX=" .. wishes.prefix .. "\n")
  file:close()
  return slurm.SUCCESS
end

function slurm_bb_pre_run(job_id, job_script)
  return slurm.SUCCESS
end

function slurm_bb_post_run(job_id, job_script)
  return slurm.SUCCESS
end

function slurm_bb_data_out(job_id, job_script, uid, gid)
  local wishes, wrong = read_wishes(job_script)
  if not wishes then return wrong and slurm.ERROR or slurm.SUCCESS, wrong end
  local seconds = wishes.wait_out or kWait.wait_out
  await_epilogs(job_id, seconds)
  local done, said = wait_for(job_id, uid, gid, wishes, seconds, true)
  slurm.log_info("cairn: stage-out of job %s: %s", job_id, said)
  if done then return slurm.SUCCESS end
  return slurm.ERROR, "cairn: " .. said
end

function slurm_bb_job_teardown(job_id, job_script, hurry)
  return slurm.SUCCESS
end

-- `scontrol show bbstat …`: Slurm asks for this function by name, and does not say who asks; all arguments are that
-- one's own words. Slurmctld is root: nothing is run for somebody unknown.
function slurm_bb_get_status()
  return slurm.SUCCESS, "who works under a run, its user is told by: cairn run show RUN\n"
end
