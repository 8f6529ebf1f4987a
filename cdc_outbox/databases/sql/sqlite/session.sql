-- name: begin
-- One that reads first cannot write after another one has.
begin immediate;
