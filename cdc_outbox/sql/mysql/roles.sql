-- name: create_role
-- Without a password anybody could log in.
create user if not exists {role} account lock;

-- name: grant
grant {actions} on {table} to {role};

-- name: grant_everywhere
grant {actions} on *.* to {role};
