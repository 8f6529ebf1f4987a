-- Accounts are locked at first, because one without a password lets every client in.

-- name: create_role
create user if not exists `{role}` account lock;

-- name: grant
grant `{actions}` on `{table}` to `{role}`;

-- name: grant_everywhere
grant `{actions}` on *.* to `{role}`;
