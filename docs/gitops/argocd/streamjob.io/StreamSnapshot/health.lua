-- A StreamSnapshot is good for one thing, so its state says it all; a generation that the controller has not looked at
-- yet can change nothing about one that is complete.
local status = obj.status or {}

if status.state == "Completed" then
  return { status = "Healthy", message = status.path or "" }
end

if status.state == "Failed" or status.state == "Abandoned" then
  return { status = "Degraded", message = status.error or status.state }
end

return { status = "Progressing", message = status.error or "Waiting for the snapshot" }
