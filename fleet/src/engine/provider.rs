//! A table of the fleet for DataFusion: exactly the files that commits name, with their sizes, so
//! nothing is listed and nothing else is read. It travels to a cluster's scheduler as JSON.
//!
//! What does not belong here: the choice of commits.

use crate::clock::FleetHour;
use crate::commit::HourCommit;
use crate::store::Place;
use crate::tables::{FleetTable, table};
use async_trait::async_trait;
use ballista_core::serde::BallistaLogicalExtensionCodec;
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Int32Array, TimestampMillisecondArray,
};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::stats::Precision;
use datafusion::common::{
    Column, ColumnStatistics, DataFusionError, Result, ScalarValue, Statistics, TableReference,
    ToDFSchema, exec_err,
};
use datafusion::datasource::TableType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::TaskContext;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, TableProviderFilterPushDown};
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;

/// Bytes at the end of a file that are read at first: most footers.
const FOOTER_BYTES: usize = 32 << 10;

/// A file of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ProvidedFile {
    /// Its name in the store.
    path: String,
    bytes: u64,
    rows: u64,
    hour_s: i64,
}

/// The description of a table that is sent to a scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TableRecipe {
    table: String,
    /// The store's URL.
    root: String,
    files: Vec<ProvidedFile>,
}

/// A table of the fleet.
#[derive(Debug)]
pub struct FleetTableProvider {
    table: &'static FleetTable,
    recipe: TableRecipe,
}

impl FleetTableProvider {
    /// The table's files that these commits name.
    pub fn new(
        place: &Place,
        table: &'static FleetTable,
        commits: &[HourCommit],
    ) -> FleetTableProvider {
        let of_hour = |commit: &HourCommit| {
            let hour_s = commit.hour_s;
            let provided = commit.files(table.name).map(|file| ProvidedFile {
                path: place.path(&file.path).to_string(),
                bytes: file.bytes,
                rows: file.rows,
                hour_s,
            });
            provided.collect::<Vec<_>>()
        };
        let files = commits.iter().flat_map(of_hour).collect();
        let (name, root) = (table.name.to_owned(), place.root.to_string());
        FleetTableProvider { table, recipe: TableRecipe { table: name, root, files } }
    }

    /// Names and sizes of its files.
    pub fn files(&self) -> impl Iterator<Item = (&str, u64)> {
        self.recipe.files.iter().map(|file| (file.path.as_str(), file.bytes))
    }

    fn partitioned(&self, file: &ProvidedFile) -> PartitionedFile {
        let hour = FleetHour::from_seconds(file.hour_s);
        let values =
            vec![ScalarValue::Date32(Some(hour.day())), ScalarValue::Int32(Some(hour.of_day()))];
        let time = |time_s: i64| {
            let value = ScalarValue::TimestampMillisecond(Some(time_s * 1000), Some("UTC".into()));
            Precision::Inexact(value)
        };
        let columns = self.table.columns.iter().map(|column| match column.name {
            "time" => ColumnStatistics {
                min_value: time(hour.begin_s()),
                max_value: time(hour.end_s()),
                ..ColumnStatistics::new_unknown()
            },
            _ => ColumnStatistics::new_unknown(),
        });
        let statistics = Statistics {
            num_rows: Precision::Exact(file.rows as usize),
            total_byte_size: Precision::Absent,
            column_statistics: columns.collect(),
        };
        PartitionedFile::new(file.path.clone(), file.bytes)
            .with_partition_values(values)
            .with_statistics(Arc::new(statistics))
    }

    /// The files whose hour can have rows that fit the filters.
    fn fitting(&self, state: &dyn Session, filters: &[Expr]) -> Result<Vec<&ProvidedFile>> {
        let schema = self.schema();
        let mut fits = vec![true; self.recipe.files.len()];
        for filter in filters {
            let filter =
                state.create_physical_expr(filter.clone(), &schema.clone().to_dfschema()?)?;
            // A filter that says nothing of the hour keeps every file.
            let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(&schema));
            let Ok(predicate) = builder.try_build(filter) else { continue };
            let kept = predicate.prune(&HourStatistics { files: &self.recipe.files })?;
            fits.iter_mut().zip(kept).for_each(|(fits, kept)| *fits &= kept);
        }
        Ok(self.recipe.files.iter().zip(fits).filter(|pair| pair.1).map(|pair| pair.0).collect())
    }

    /// Files in groups of about the same number of bytes.
    fn groups(&self, mut files: Vec<&ProvidedFile>, count: usize) -> Vec<FileGroup> {
        files.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.path.cmp(&b.path)));
        let count = count.clamp(1, files.len().max(1));
        let mut groups: Vec<(u64, Vec<PartitionedFile>)> = vec![(0, Vec::new()); count];
        for file in files {
            if let Some(least) = groups.iter_mut().min_by_key(|group| group.0) {
                least.0 += file.bytes;
                least.1.push(self.partitioned(file));
            }
        }
        groups.into_iter().map(|(_, files)| FileGroup::new(files)).collect()
    }
}

/// The bounds of `date`, `hour` and `time` by the hours of files.
struct HourStatistics<'a> {
    files: &'a [ProvidedFile],
}

impl HourStatistics<'_> {
    fn values(&self, column: &Column, edge_s: impl Fn(FleetHour) -> i64) -> Option<ArrayRef> {
        let hours = self.files.iter().map(|file| FleetHour::from_seconds(file.hour_s));
        match column.name.as_str() {
            "date" => Some(Arc::new(Date32Array::from_iter_values(hours.map(FleetHour::day)))),
            "hour" => Some(Arc::new(hours.map(FleetHour::of_day).collect::<Int32Array>())),
            "time" => {
                let times = hours.map(|hour| edge_s(hour) * 1000);
                let times = TimestampMillisecondArray::from_iter_values(times);
                Some(Arc::new(times.with_timezone("UTC")))
            }
            _ => None,
        }
    }
}

impl PruningStatistics for HourStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.values(column, FleetHour::begin_s)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.values(column, FleetHour::end_s)
    }

    fn num_containers(&self) -> usize {
        self.files.len()
    }

    fn null_counts(&self, _: &Column) -> Option<ArrayRef> {
        None
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        None
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

#[async_trait]
impl TableProvider for FleetTableProvider {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        // Hours, row groups and pages are skipped by them; the remaining rows are filtered above.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let files = self.fitting(state, filters)?;
        if files.is_empty() {
            let schema = match projection {
                Some(projection) => Arc::new(self.schema().project(projection)?),
                None => self.schema(),
            };
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let schema = TableSchema::builder(self.table.file_schema())
            .with_table_partition_cols(FleetTable::partition_fields())
            .build();
        let source = ParquetSource::new(schema).with_metadata_size_hint(FOOTER_BYTES);
        let url = ObjectStoreUrl::parse(&self.recipe.root)?;
        let config = FileScanConfigBuilder::new(url, Arc::new(source))
            .with_file_groups(self.groups(files, state.config().target_partitions()))
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }
}

/// Encodes tables of the fleet for a scheduler, and everything else as Ballista does.
#[derive(Debug, Default)]
pub struct FleetCodec {
    inner: BallistaLogicalExtensionCodec,
}

impl LogicalExtensionCodec for FleetCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[LogicalPlan],
        ctx: &TaskContext,
    ) -> Result<Extension> {
        self.inner.try_decode(buf, inputs, ctx)
    }

    fn try_encode(&self, node: &Extension, buf: &mut Vec<u8>) -> Result<()> {
        self.inner.try_encode(node, buf)
    }

    fn try_decode_table_provider(
        &self,
        buf: &[u8],
        _: &TableReference,
        _: SchemaRef,
        _: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        let recipe: TableRecipe =
            serde_json::from_slice(buf).map_err(|error| DataFusionError::External(error.into()))?;
        match table(&recipe.table) {
            Some(table) => Ok(Arc::new(FleetTableProvider { table, recipe })),
            None => exec_err!("there is no table {:?}", recipe.table),
        }
    }

    fn try_encode_table_provider(
        &self,
        table_ref: &TableReference,
        node: Arc<dyn TableProvider>,
        buf: &mut Vec<u8>,
    ) -> Result<()> {
        match (node.as_ref() as &dyn Any).downcast_ref::<FleetTableProvider>() {
            Some(provider) => serde_json::to_writer(buf, &provider.recipe)
                .map_err(|error| DataFusionError::External(error.into())),
            None => self.inner.try_encode_table_provider(table_ref, node, buf),
        }
    }
}
